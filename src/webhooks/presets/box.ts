import type { WebhookScheme } from "../schemes/scheme.js";

export const box = {
  verify: {
    kind: "signature",
    headers: ["box-signature-primary", "box-signature-secondary"],
    encoding: "base64",
    signed: "{body}{timestamp}",
    timestamp: { header: "box-delivery-timestamp", unit: "iso", maxAgeMs: 600_000 },
  },
  // not box-delivery-id, which a retry has anew
  messageId: "{json:id}",
  topic: "{json:trigger}",
  keepHeaders: ["box-delivery-id", "box-delivery-timestamp"],
  contentTypes: ["application/json"],
} as const satisfies WebhookScheme;
