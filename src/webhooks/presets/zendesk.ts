import type { WebhookScheme } from "../schemes/scheme.js";
import type { PresetAbout } from "./about.js";

export const zendesk = {
  verify: {
    kind: "signature",
    header: "x-zendesk-webhook-signature",
    encoding: "base64",
    signed: "{timestamp}{body}",
    timestamp: { header: "x-zendesk-webhook-signature-timestamp", unit: "iso" },
  },
  // not the body's id: a trigger's body is the customer's own, and its id may be a ticket's
  messageId: "{header:x-zendesk-webhook-invocation-id}",
  topic: "{json:type}",
  tenant: "{json:account_id}",
  keepHeaders: ["x-zendesk-account-id", "x-zendesk-webhook-id", "x-zendesk-webhook-invocation-id"],
} as const satisfies WebhookScheme;

export const about = {
  name: "Zendesk",
  batches: false,
  retries:
    "Up to 3 retries after 409, after 429 and 503 if Retry-After is below 60 s, and up to 5 after a timeout.",
  answerWithin: "12 s",
  secret: "The signing secret of the webhook, used as text.",
  signs: "Time and body. Not the other headers.",
  idIsUnique: "One invocation id for each event, and the same in its retries.",
  checked: {
    title: "Verifying webhook requests; Webhooks API: retries (Zendesk developers)",
    date: "2026-11",
    with: "documentation",
    delivery: {
      page: "Webhooks API: Introduction (Zendesk developers)",
      date: "2026-11-17",
      notSeen: "after which answers, how often, and the 12 s",
    },
  },
} as const satisfies PresetAbout;
