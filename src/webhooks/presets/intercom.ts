import type { Handshake, WebhookScheme } from "../schemes/scheme.js";
import type { PresetAbout } from "./about.js";

/** Intercom asks whether the address answers, before it saves it. */
const endpointCheck = { method: "HEAD", when: {}, unsigned: true, answer: {} } as const satisfies Handshake;

export const intercom = {
  verify: { kind: "signature", header: "x-hub-signature", prefix: "sha1=", algorithm: "sha1" },
  messageId: "{json:id}",
  topic: "{json:topic}",
  tenant: "{json:app_id}",
  volatileFields: ["delivery_attempts", "delivery_status", "delivered_at", "first_sent_at"],
  contentTypes: ["application/json"],
  handshakes: [endpointCheck],
  receiveMs: 4_000,
} as const satisfies WebhookScheme;

export const about = {
  name: "Intercom",
  batches: false,
  retries:
    "One retry, after 1 minute. 1,000 errors within 15 minutes pause the webhook for as long, 7 days of errors suspend it, and a 429 slows it down.",
  answerWithin: "5 s",
  secret: "The client secret of the app, used as text.",
  signs: "The body, with SHA-1.",
  idIsUnique: "The notification's id. A retry has the same, and other delivery_… fields.",
  checked: {
    title: "Webhook notifications; Setting up webhooks (Intercom developers)",
    date: "2026-11",
    with: "documentation",
    delivery: {
      page: "Delivering webhook notifications (Intercom developers)",
      date: "2026-11-17",
      notSeen: "the single retry and the 5 s",
    },
  },
} as const satisfies PresetAbout;
