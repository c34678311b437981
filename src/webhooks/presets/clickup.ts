import type { WebhookScheme } from "../schemes/scheme.js";
import type { PresetAbout } from "./about.js";

export const clickup = {
  verify: { kind: "signature", header: "x-signature" },
  // one change may cause several events. An event without history could be like an earlier one, so it is always new.
  messageId: ["{json:webhook_id}/{json:event}/{json:history_items.0.id}", "{received}"],
  topic: "{json:event}",
  contentTypes: ["application/json"],
  // ClickUp suspends a webhook at its first 401
  refusals: { unauthorized: { status: 400, json: { error: "unauthorized" } } },
} as const satisfies WebhookScheme;

export const about = {
  name: "ClickUp",
  batches: false,
  retries:
    "Up to 5 attempts for each event, after each answer but 2xx. A 401 or 410 suspends the webhook at once, 100 failed events do, too.",
  answerWithin: "7 s",
  secret: "The secret in the response to the call that creates the webhook, used as text.",
  signs: "The body.",
  idIsUnique:
    "The id of the first history item, with the webhook and the event. Without a history item each delivery is a new message.",
  checked: {
    title: "Webhook signature; Webhook health status; Webhooks (ClickUp developer)",
    date: "2026-11",
    with: "documentation",
    delivery: { page: "Webhook health status (ClickUp developer)", date: "2026-11-17" },
  },
} as const satisfies PresetAbout;
