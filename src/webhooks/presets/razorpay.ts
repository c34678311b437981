import type { WebhookScheme } from "../schemes/scheme.js";

export const razorpay = {
  verify: { kind: "signature", header: "x-razorpay-signature" },
  messageId: "{header:x-razorpay-event-id}",
  topic: "{json:event}",
  tenant: "{json:account_id}",
  keepHeaders: ["x-razorpay-event-id"],
  contentTypes: ["application/json"],
  receiveMs: 4_000,
} as const satisfies WebhookScheme;
