import type { Handshake, WebhookScheme } from "../schemes/scheme.js";

const subscription = {
  method: "GET",
  when: { "{query:hub.mode}": "subscribe" },
  verifyToken: "{query:hub.verify_token}",
  answer: { text: "{query:hub.challenge}" },
} as const satisfies Handshake;

export const meta = {
  verify: { kind: "signature", header: "x-hub-signature-256", prefix: "sha256=" },
  split: "{json:entry}",
  topic: "{json:object}",
  // the page, the account or the user whom the entry is about
  tenant: "{item:id}",
  contentTypes: ["application/json"],
  handshakes: [subscription],
} as const satisfies WebhookScheme;
