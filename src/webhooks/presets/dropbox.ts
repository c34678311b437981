import type { Handshake, WebhookScheme } from "../schemes/scheme.js";

const challenge = {
  method: "GET",
  when: { "{query:challenge}": true },
  unsigned: true,
  answer: { text: "{query:challenge}" },
} as const satisfies Handshake;

export const dropbox = {
  verify: { kind: "signature", header: "x-dropbox-signature" },
  // the body names the accounts that have changes, and looks alike for each change
  messageId: "{received}",
  contentTypes: ["application/json"],
  handshakes: [challenge],
} as const satisfies WebhookScheme;
