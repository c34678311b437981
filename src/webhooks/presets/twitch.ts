import type { Handshake, WebhookScheme } from "../schemes/scheme.js";
import type { PresetAbout } from "./about.js";

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

export const about = {
  name: "Twitch EventSub",
  batches: false,
  retries:
    "Sends an event again where it is unsure that it arrived. A callback that fails too often is revoked.",
  answerWithin: "10 s",
  secret: "The secret that you gave to the subscription: 10 to 100 ASCII characters, used as text.",
  signs: "Message id, time and body.",
  idIsUnique: "Twitch sends a message again with the same id.",
  checked: {
    title: "Handling webhook events (Twitch developers); twitch-cli, forward_event.go",
    date: "2026-11",
    with: "documentation",
    delivery: {
      page: "EventSub (Twitch developers)",
      date: "2026-11-17",
      notSeen: "how often, and the 10 s",
    },
  },
} as const satisfies PresetAbout;
