import type { WebhookScheme } from "../schemes/scheme.js";

export const typeform = {
  verify: { kind: "signature", header: "typeform-signature", prefix: "sha256=", encoding: "base64" },
  messageId: "{json:event_id}",
  topic: "{json:event_type}",
  contentTypes: ["application/json"],
} as const satisfies WebhookScheme;
