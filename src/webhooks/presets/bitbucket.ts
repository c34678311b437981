import type { WebhookScheme } from "../schemes/scheme.js";
import type { PresetAbout } from "./about.js";

export const bitbucket = {
  verify: { kind: "signature", header: "x-hub-signature", prefix: "sha256=" },
  messageId: ["{header:x-request-uuid}", "{header:x-request-id}"],
  topic: "{header:x-event-key}",
  keepHeaders: ["x-event-key", "x-hook-uuid", "x-request-uuid", "x-request-id", "x-attempt-number"],
} as const satisfies WebhookScheme;

export const about = {
  name: "Bitbucket",
  batches: false,
  retries: "Cloud: twice more after 5xx or no answer. Data Center: never.",
  answerWithin: "10 s",
  secret: "The secret of the webhook, used as text.",
  signs: "The body. Not the headers, and so neither id nor event name.",
  idIsUnique: "X-Request-UUID (Data Center: X-Request-Id) is unique for each request, and a retry keeps it.",
  checked: {
    title: "Manage webhooks; Event payloads",
    date: "2026-11",
    with: "vector",
    delivery: { date: "2026-11-17" },
  },
} as const satisfies PresetAbout;
