import type { Handshake, WebhookScheme } from "../schemes/scheme.js";

const callbackVerification = {
  method: "POST",
  when: { "{header:twitch-eventsub-message-type}": "webhook_callback_verification" },
  answer: { text: "{json:challenge}" },
} as const satisfies Handshake;

export const twitch = {
  verify: {
    kind: "signature",
    header: "twitch-eventsub-message-signature",
    prefix: "sha256=",
    signed: "{header:twitch-eventsub-message-id}{timestamp}{body}",
    timestamp: { header: "twitch-eventsub-message-timestamp", unit: "iso", maxAgeMs: 600_000 },
  },
  messageId: "{header:twitch-eventsub-message-id}",
  topic: "{json:subscription.type}",
  tenant: "{json:event.broadcaster_user_id}",
  // a revocation has the topic of its subscription, and this header says what it is
  keepHeaders: ["twitch-eventsub-message-type", "twitch-eventsub-message-retry"],
  contentTypes: ["application/json"],
  handshakes: [callbackVerification],
} as const satisfies WebhookScheme;
