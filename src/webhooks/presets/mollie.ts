import type { WebhookScheme } from "../schemes/scheme.js";
import type { PresetAbout } from "./about.js";

export const mollie = {
  verify: { kind: "signature", header: "x-mollie-signature", separator: ",", prefix: "sha256=" },
  messageId: "{json:id}",
  topic: "{json:type}",
  contentTypes: ["application/json"],
} as const satisfies WebhookScheme;

export const about = {
  name: "Mollie (next-gen)",
  batches: false,
  retries: "10 retries within 26 hours, with growing intervals, after each answer but 2xx.",
  answerWithin: "15 s",
  secret: "The signing secret that Mollie shows when the webhook is made, used as text.",
  signs: "The body.",
  idIsUnique: "The event's id.",
  checked: {
    title:
      "Next-gen webhooks; Webhooks: best practices (Mollie docs); mollie-api-php, SignatureValidator.php",
    date: "2026-11",
    with: "documentation",
    delivery: { date: "2026-11-17" },
  },
} as const satisfies PresetAbout;
