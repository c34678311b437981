import type { WebhookScheme } from "../schemes/scheme.js";

export const square = {
  verify: {
    kind: "signature",
    header: "x-square-hmacsha256-signature",
    encoding: "base64",
    signed: "{url}{body}",
  },
  messageId: "{json:event_id}",
  topic: "{json:type}",
  tenant: "{json:merchant_id}",
  keepHeaders: ["square-initial-delivery-timestamp", "square-retry-number", "square-retry-reason"],
  contentTypes: ["application/json"],
} as const satisfies WebhookScheme;
