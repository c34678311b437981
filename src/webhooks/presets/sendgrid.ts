import type { WebhookScheme } from "../schemes/scheme.js";

export const sendgrid = {
  verify: {
    kind: "signature",
    header: "x-twilio-email-event-webhook-signature",
    algorithm: "ecdsa-sha256",
    encoding: "base64",
    signed: "{timestamp}{body}",
    // nothing says that a retry, up to 24 hours later, is signed with a new time
    timestamp: { header: "x-twilio-email-event-webhook-timestamp", maxAgeMs: 25 * 3_600_000 },
  },
  split: "{json:}",
  messageId: "{item:sg_event_id}",
  topic: "{item:event}",
  contentTypes: ["application/json"],
} as const satisfies WebhookScheme;
