import type { WebhookScheme } from "../schemes/scheme.js";

export const mollie = {
  verify: { kind: "signature", header: "x-mollie-signature", separator: ",", prefix: "sha256=" },
  messageId: "{json:id}",
  topic: "{json:type}",
  contentTypes: ["application/json"],
} as const satisfies WebhookScheme;
