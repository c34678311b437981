import type { WebhookScheme } from "../schemes/scheme.js";
import type { PresetAbout } from "./about.js";

export const plaid = {
  verify: {
    kind: "jwt",
    token: "{header:plaid-verification}",
    algorithms: ["ES256"],
    bodyHash: "request_body_sha256",
  },
  // a webhook says that there is something new, in the same words each time
  messageId: "{received}",
  topic: "{json:webhook_type}.{json:webhook_code}",
  tenant: "{json:item_id}",
  contentTypes: ["application/json"],
} as const satisfies WebhookScheme;

export const about = {
  name: "Plaid",
  batches: false,
  retries:
    "For up to 24 hours, after 30 s and then each time after 4 times as long, unless the answer is 200.",
  answerWithin: "10 s",
  secret:
    "The public keys, as JWK in JSON: those that /webhook_verification_key/get returns. Give a function that fetches them.",
  signs: "The SHA-256 of the body, and the time.",
  idIsUnique: "There is none, so each delivery is a new message and a retry may be handled twice.",
  checked: {
    title: "Verify webhooks; Webhooks (Plaid docs)",
    date: "2026-11",
    with: "documentation",
    delivery: {
      page: "Can Plaid re-push failed or missed webhook events? (Plaid support)",
      date: "2026-11-17",
    },
  },
} as const satisfies PresetAbout;
