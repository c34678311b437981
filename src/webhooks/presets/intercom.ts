import type { Handshake, WebhookScheme } from "../schemes/scheme.js";

/** Intercom asks whether the address answers, before it saves it. */
const endpointCheck = { method: "HEAD", when: {}, unsigned: true, answer: {} } as const satisfies Handshake;

export const intercom = {
  verify: { kind: "signature", header: "x-hub-signature", prefix: "sha1=", algorithm: "sha1" },
  messageId: "{json:id}",
  topic: "{json:topic}",
  tenant: "{json:app_id}",
  volatileFields: ["delivery_attempts", "delivery_status", "delivered_at", "first_sent_at"],
  contentTypes: ["application/json"],
  handshakes: [endpointCheck],
  receiveMs: 4_000,
} as const satisfies WebhookScheme;
