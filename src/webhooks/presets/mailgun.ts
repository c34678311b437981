import type { WebhookScheme } from "../schemes/scheme.js";

export const mailgun = {
  verify: {
    kind: "signature",
    signatureIn: "{json:signature.signature}",
    signed: "{json:signature.timestamp}{json:signature.token}",
    signsPart: true,
    // nothing says that a retry, up to 8 hours later, is signed with a new time
    timestamp: { json: "signature.timestamp", maxAgeMs: 9 * 3_600_000 },
  },
  messageId: "{json:event-data.id}",
  topic: "{json:event-data.event}",
  volatileFields: ["signature"],
  contentTypes: ["application/json"],
} as const satisfies WebhookScheme;
