import type { WebhookScheme } from "../schemes/scheme.js";

export const clickup = {
  verify: { kind: "signature", header: "x-signature" },
  // one change may cause several events. An event without history could be like an earlier one, so it is always new.
  messageId: ["{json:webhook_id}/{json:event}/{json:history_items.0.id}", "{received}"],
  topic: "{json:event}",
  contentTypes: ["application/json"],
  // ClickUp suspends a webhook at its first 401
  refusals: { unauthorized: { status: 400, json: { error: "unauthorized" } } },
} as const satisfies WebhookScheme;
