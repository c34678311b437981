import type { WebhookScheme } from "../schemes/scheme.js";
import type { PresetAbout } from "./about.js";

export const github = {
  verify: { kind: "signature", header: "x-hub-signature-256", prefix: "sha256=" },
  // all hooks that an event triggers get the same delivery id
  messageId: ["{header:x-github-hook-id}/{header:x-github-delivery}", "{header:x-github-delivery}"],
  topic: "{header:x-github-event}",
  tenant: "{json:installation.id}",
  keepHeaders: ["x-github-event", "x-github-delivery", "x-github-hook-id"],
  contentTypes: ["application/json", "application/x-www-form-urlencoded"],
} as const satisfies WebhookScheme;

export const about = {
  name: "GitHub",
  batches: false,
  retries:
    "Never by itself. Deliveries of the last 3 days can be asked for again, by hand or with `oncebox recover github`.",
  answerWithin: "10 s",
  secret: "The secret of the webhook, used as text.",
  signs: "The body. Not the headers, and so neither id nor event name.",
  idIsUnique:
    "X-GitHub-Delivery is unique for each event, with X-GitHub-Hook-ID for each hook. A redelivery keeps both.",
  checked: {
    title: "Validating webhook deliveries",
    date: "2026-11",
    with: "sdk",
    delivery: { page: "Handling failed webhook deliveries", date: "2026-11" },
  },
} as const satisfies PresetAbout;
