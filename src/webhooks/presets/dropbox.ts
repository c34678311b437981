import type { Handshake, WebhookScheme } from "../schemes/scheme.js";
import type { PresetAbout } from "./about.js";

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

export const about = {
  name: "Dropbox",
  batches: false,
  retries: "Retries with growing intervals. Where most notifications fail, the webhook is disabled.",
  answerWithin: "10 s",
  secret: "The app secret, used as text.",
  signs: "The body.",
  idIsUnique:
    "There is none, so each delivery is a new message and a retry may be handled twice. List the changes from your last cursor.",
  checked: {
    title: "Webhooks (Dropbox developers)",
    date: "2026-11",
    with: "documentation",
    delivery: {
      page: "Webhooks (Dropbox developers), as others quote it",
      date: "2026-11-17",
      notSeen: "the retries",
    },
  },
} as const satisfies PresetAbout;
