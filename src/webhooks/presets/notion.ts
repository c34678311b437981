import type { Handshake, WebhookScheme } from "../schemes/scheme.js";
import type { PresetAbout } from "./about.js";

/**
 * The request with which Notion tells its secret, when the subscription is made. It is not signed, so it counts only at
 * an address with a token of your own, `?token=…`: the source's `verifyToken`. The message has the secret.
 */
export const notionVerification = {
  method: "POST",
  when: { "{json:verification_token}": true },
  verifyToken: "{query:token}",
  store: true,
  answer: {},
} as const satisfies Handshake;

export const notion = {
  verify: { kind: "signature", header: "x-notion-signature", prefix: "sha256=" },
  messageId: "{json:id}",
  topic: "{json:type}",
  tenant: "{json:workspace_id}",
  volatileFields: ["attempt_number"],
  contentTypes: ["application/json"],
} as const satisfies WebhookScheme;

export const about = {
  name: "Notion",
  batches: false,
  retries: "Up to 8 retries within about 24 hours, with growing intervals.",
  answerWithin: undefined,
  secret:
    "The verification token that Notion posts when the subscription is made, used as text. `oncebox listen` shows it.",
  signs: "The body.",
  idIsUnique: "The event's id. A retry has the same, and another attempt_number.",
  checked: {
    title: "Webhooks (Notion developers); notion-sdk-js, webhooks.ts",
    date: "2026-11",
    with: "documentation",
    byHand: "notion-sdk-js, webhooks.ts",
    delivery: { date: "2026-11-17" },
  },
} as const satisfies PresetAbout;
