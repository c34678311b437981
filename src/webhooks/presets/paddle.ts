import type { WebhookScheme } from "../schemes/scheme.js";

export const paddle = {
  verify: {
    kind: "signature",
    header: "paddle-signature",
    separator: ";",
    prefix: "h1=",
    signed: "{timestamp}:{body}",
    timestamp: { header: "paddle-signature", separator: ";", prefix: "ts=" },
  },
  messageId: "{json:event_id}",
  topic: "{json:event_type}",
  // a replay is a new notification of the same event
  volatileFields: ["notification_id"],
  contentTypes: ["application/json"],
  receiveMs: 4_000,
} as const satisfies WebhookScheme;
