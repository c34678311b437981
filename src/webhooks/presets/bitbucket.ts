import type { WebhookScheme } from "../schemes/scheme.js";

export const bitbucket = {
  verify: { kind: "signature", header: "x-hub-signature", prefix: "sha256=" },
  messageId: ["{header:x-request-uuid}", "{header:x-request-id}"],
  topic: "{header:x-event-key}",
  keepHeaders: ["x-event-key", "x-hook-uuid", "x-request-uuid", "x-request-id", "x-attempt-number"],
} as const satisfies WebhookScheme;
