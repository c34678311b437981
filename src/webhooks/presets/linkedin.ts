import type { Handshake, WebhookScheme } from "../schemes/scheme.js";

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
