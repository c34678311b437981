import type { WebhookScheme } from "../schemes/scheme.js";
import type { PresetAbout } from "./about.js";

export const trello = {
  verify: {
    kind: "signature",
    header: "x-trello-webhook",
    algorithm: "sha1",
    encoding: "base64",
    signed: "{body}{url}",
  },
  // the webhooks of a board and of its cards tell the same action
  messageId: "{json:model.id}/{json:action.id}",
  topic: "{json:action.type}",
  contentTypes: ["application/json"],
  handshakes: [{ method: "HEAD", when: {}, unsigned: true, answer: {} }],
} as const satisfies WebhookScheme;

export const about = {
  name: "Trello",
  batches: false,
  retries:
    "After 30, 60 and 120 s, after anything but 200. A webhook that fails 1,000 times in a row over 30 days is disabled.",
  answerWithin: undefined,
  secret: "The app's OAuth 1.0 secret, used as text.",
  signs: "The body and the URL.",
  idIsUnique:
    "Each action has an id, which a retry keeps; with the model's id it is one for each watched model.",
  checked: {
    title: "Trello: Webhooks",
    date: "2026-11",
    with: "documentation",
    delivery: { date: "2026-11-17" },
  },
} as const satisfies PresetAbout;
