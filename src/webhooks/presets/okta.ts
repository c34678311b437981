import type { Handshake, WebhookScheme } from "../schemes/scheme.js";

const verification = {
  method: "GET",
  when: { "{header:x-okta-verification-challenge}": true },
  answer: { json: { verification: "{header:x-okta-verification-challenge}" } },
} as const satisfies Handshake;

export const okta = {
  verify: { kind: "token", token: "{header:authorization}" },
  split: "{json:data.events}",
  messageId: "{item:uuid}",
  topic: "{item:eventType}",
  contentTypes: ["application/json"],
  handshakes: [verification],
  // Okta wants answers without a body
  answer: { status: 200 },
  receiveMs: 2_500,
} as const satisfies WebhookScheme;
