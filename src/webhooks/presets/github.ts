import type { WebhookScheme } from "../schemes/scheme.js";
import type { PresetAbout } from "./about.js";

export const github = {
  verify: { kind: "signature", header: "x-hub-signature-256", prefix: "sha256=" },
  messageId: "{header:x-github-delivery}",
  topic: "{header:x-github-event}",
  tenant: "{json:installation.id}",
  keepHeaders: ["x-github-event", "x-github-delivery", "x-github-hook-id"],
  contentTypes: ["application/json", "application/x-www-form-urlencoded"],
} as const satisfies WebhookScheme;

export const about = {
  name: "GitHub",
  batches: false,
  retries:
    "Never retries by itself. Failed deliveries of the last 3 days can be redelivered by hand or by the API.",
  answerWithin: "10 s",
  secret: "The secret of the webhook, used as text.",
  signs: "The body. Not its headers.",
  idIsUnique: "X-GitHub-Delivery identifies the event, and a redelivery keeps it.",
  checked: { title: "Validating webhook deliveries", date: "2026-11", with: "documentation" },
} as const satisfies PresetAbout;
