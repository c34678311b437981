import type { Handshake, WebhookScheme } from "../schemes/scheme.js";
import type { PresetAbout } from "./about.js";

const metaSubscription = {
  method: "GET",
  when: { "{query:hub.mode}": "subscribe" },
  verifyToken: "{query:hub.verify_token}",
  answer: { text: "{query:hub.challenge}" },
} as const satisfies Handshake;

export const meta = {
  verify: { kind: "signature", header: "x-hub-signature-256", prefix: "sha256=" },
  // a delivery is a batch without an id
  topic: "{json:object}",
  tenant: "{json:entry.0.id}",
  contentTypes: ["application/json"],
  handshakes: [metaSubscription],
} as const satisfies WebhookScheme;

export const about = {
  name: "Meta (Facebook, Instagram, WhatsApp)",
  batches: true,
  retries: "Retries for up to 36 hours (WhatsApp: 7 days) after anything but 200.",
  answerWithin: undefined,
  secret: "The app secret, used as text.",
  signs: "The body.",
  idIsUnique: "Meta gives no id: the hash of the content.",
  checked: { title: "Webhooks from Meta: getting started", date: "2026-11", with: "documentation" },
} as const satisfies PresetAbout;
