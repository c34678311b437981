import type { WebhookScheme } from "../schemes/scheme.js";
import type { PresetAbout } from "./about.js";

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

export const about = {
  name: "SendGrid",
  batches: true,
  retries: "At growing intervals for 24 hours after anything but 2xx.",
  answerWithin: undefined,
  secret: "The verification key of the signed event webhook: an ECDSA public key in base64.",
  signs: "Timestamp and body. The time may be 25 hours old, for retries.",
  idIsUnique: "Each event has a sg_event_id, which a retry keeps.",
  checked: {
    title: "Getting started with the Event Webhook security features",
    date: "2026-11",
    with: "vector",
    delivery: {
      page: "Troubleshooting the Event Webhook (sendgrid/docs), an older version",
      date: "2026-11-17",
    },
  },
} as const satisfies PresetAbout;
