import type { Handshake, WebhookScheme } from "../schemes/scheme.js";
import type { PresetAbout } from "./about.js";

/** When a webhook is registered, and every 2 hours after that. */
const challenge = {
  method: "GET",
  when: { "{query:challengeCode}": true },
  unsigned: true,
  answer: {
    json: { challengeCode: "{query:challengeCode}", challengeResponse: "{hmac}" },
    hmac: "{query:challengeCode}",
  },
} as const satisfies Handshake;

export const linkedin = {
  // the prefix is a part of the signed text, and not of the header
  verify: { kind: "signature", header: "x-li-signature", signed: "hmacsha256={body}" },
  split: "{json:notifications}",
  messageId: "{item:notificationId}",
  topic: ["{item:action}", "{json:type}"],
  tenant: "{item:organizationalEntity}",
  contentTypes: ["application/json"],
  handshakes: [challenge],
} as const satisfies WebhookScheme;

export const about = {
  name: "LinkedIn",
  batches: true,
  retries: "Nothing is documented. An endpoint that fails 3 validations in a row is blocked.",
  answerWithin: undefined,
  secret: "The app's client secret, used as text.",
  signs: "The body, after the text hmacsha256=.",
  idIsUnique: "Each notification has a notificationId. Other events have the hash of the body.",
  checked: {
    title: "Webhooks (LinkedIn API guide)",
    date: "2026-11",
    with: "documentation",
    delivery: {
      page: "Webhooks; Developer webhooks (LinkedIn API guide)",
      date: "2026-11-17",
      notSeen: "any retry",
    },
  },
} as const satisfies PresetAbout;
