import type { WebhookScheme } from "../schemes/scheme.js";
import type { PresetAbout } from "./about.js";

export const typeform = {
  verify: { kind: "signature", header: "typeform-signature", prefix: "sha256=", encoding: "base64" },
  messageId: "{json:event_id}",
  topic: "{json:event_type}",
  contentTypes: ["application/json"],
} as const satisfies WebhookScheme;

export const about = {
  name: "Typeform",
  batches: false,
  retries:
    "After 408, 423, 429 and 503 every 2 to 3 minutes for 10 hours. After 404 and 410 never, and the webhook is disabled. After other answers after 5, 10 and 20 minutes, 1, 2, 3 and 4 hours.",
  answerWithin: "30 s",
  secret: "The secret that you gave to the webhook, used as text.",
  signs: "The body.",
  idIsUnique: "event_id identifies the event.",
  checked: {
    title: "Secure your webhooks; Webhooks (Typeform developers)",
    date: "2026-11",
    with: "documentation",
    delivery: { page: "Webhooks API (Typeform developers)", date: "2026-11-17" },
  },
} as const satisfies PresetAbout;
