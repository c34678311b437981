import type { Handshake, WebhookScheme } from "../schemes/scheme.js";
import type { PresetAbout } from "./about.js";

const verification = {
  method: "GET",
  when: { "{header:x-okta-verification-challenge}": true },
  answer: { json: { verification: "{header:x-okta-verification-challenge}" } },
} as const satisfies Handshake;

export const okta = {
  verify: { kind: "token", token: "{header:authorization}" },
  split: "{json:data.events}",
  messageId: "{item:uuid}",
  topic: "{item:eventType}",
  contentTypes: ["application/json"],
  handshakes: [verification],
  // Okta wants answers without a body
  answer: { status: 200 },
  receiveMs: 2_500,
} as const satisfies WebhookScheme;

export const about = {
  name: "Okta",
  batches: true,
  retries: "One retry at most. Not after a 4xx.",
  answerWithin: "3 s",
  secret: "The authentication secret of the event hook, in the field Authorization: text of your own.",
  signs: "Nothing: the token alone proves the sender.",
  idIsUnique: "uuid identifies an event of the system log.",
  checked: {
    title: "Event hooks; Event hook implementation (Okta developer)",
    date: "2026-11",
    with: "documentation",
    delivery: { page: "Event hooks (Okta developer), an older version", date: "2026-11-17" },
  },
} as const satisfies PresetAbout;
