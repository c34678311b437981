import type { Handshake, WebhookScheme } from "../schemes/scheme.js";

/** The first notification of a channel says only that the channel exists. */
const sync = {
  method: "POST",
  when: { "{header:x-goog-resource-state}": "sync" },
  answer: {},
} as const satisfies Handshake;

export const googlepush = {
  verify: { kind: "token", token: "{header:x-goog-channel-token}" },
  messageId: "{header:x-goog-channel-id}/{header:x-goog-message-number}",
  topic: "{header:x-goog-resource-state}",
  keepHeaders: [
    "x-goog-channel-id",
    "x-goog-channel-expiration",
    "x-goog-message-number",
    "x-goog-resource-id",
    "x-goog-resource-state",
    "x-goog-resource-uri",
    "x-goog-changed",
  ],
  handshakes: [sync],
} as const satisfies WebhookScheme;
