import type { Handshake, WebhookScheme } from "../schemes/scheme.js";
import type { PresetAbout } from "./about.js";

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

export const about = {
  name: "Google push notifications (Calendar, Drive, …)",
  batches: false,
  retries:
    "Retries with growing intervals after 500, 502, 503 and 504. Every other answer but 2xx loses the notification.",
  answerWithin: undefined,
  secret: "The token that you gave to the channel.",
  signs: "Nothing: the token alone proves the sender. Most notifications have no body.",
  idIsUnique: "The message number grows within a channel.",
  checked: {
    title: "Push notifications (Google Calendar API, Google Drive API)",
    date: "2026-11",
    with: "documentation",
    delivery: { date: "2026-11-17" },
  },
} as const satisfies PresetAbout;
