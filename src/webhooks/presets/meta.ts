import type { Handshake, WebhookScheme } from "../schemes/scheme.js";
import type { PresetAbout } from "./about.js";

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

export const about = {
  name: "Meta (Facebook, Instagram, Messenger)",
  batches: true,
  retries:
    "At once, then less and less often for 36 hours; then the event is dropped. Messenger ends the subscription of a page after an hour of failures.",
  answerWithin: undefined,
  secret: "The app secret, used as text.",
  signs: "The body.",
  idIsUnique: "Meta gives no id: the hash of the entry.",
  checked: {
    title: "Webhooks: getting started",
    date: "2026-11",
    with: "documentation",
    delivery: {
      page: "Webhooks: Getting started (Meta for developers), as others quote it",
      date: "2026-11-17",
    },
  },
} as const satisfies PresetAbout;
