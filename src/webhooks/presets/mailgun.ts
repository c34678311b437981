import type { WebhookScheme } from "../schemes/scheme.js";
import type { PresetAbout } from "./about.js";

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

export const about = {
  name: "Mailgun",
  batches: false,
  retries:
    "For 8 hours, after 10, 10, 15 and 30 minutes, 1, 2 and 4 hours, unless the answer is 200 or 406. The event delivered: never.",
  answerWithin: undefined,
  secret: "The HTTP webhook signing key, used as text.",
  signs:
    "A timestamp and a token in the body, and not the event: whoever has a copy of a delivery can change it, for 9 hours.",
  idIsUnique: "event-data.id is unique for each event, and a retry keeps it.",
  checked: {
    title: "Securing webhooks; Automatic retries",
    date: "2026-11",
    with: "documentation",
    delivery: { page: "User manual: Webhooks (mailgun/documentation, 2024)", date: "2026-11-17" },
  },
} as const satisfies PresetAbout;
