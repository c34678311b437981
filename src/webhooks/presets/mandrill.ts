import type { WebhookScheme } from "../schemes/scheme.js";
import type { PresetAbout } from "./about.js";

export const mandrill = {
  verify: {
    kind: "signature",
    header: "x-mandrill-signature",
    algorithm: "sha1",
    encoding: "base64",
    signed: "{url}{sortedForm}",
  },
  split: "{form:mandrill_events}",
  // no id: `_id` is the message's, and several events of a message may have the same second
  topic: ["{item:event}", "{item:type}"],
  contentTypes: ["application/x-www-form-urlencoded"],
  handshakes: [{ method: "HEAD", when: {}, unsigned: true, answer: {} }],
} as const satisfies WebhookScheme;

export const about = {
  name: "Mandrill (Mailchimp Transactional)",
  batches: true,
  retries: "At growing intervals after anything but 200, until you give the batch up.",
  answerWithin: undefined,
  secret: "The webhook's authentication key, used as text.",
  signs: "The URL and the form's fields.",
  idIsUnique: "Mandrill gives no id: the hash of the event.",
  checked: {
    title: "Track email activity with webhooks",
    date: "2026-11",
    with: "documentation",
    delivery: { date: "2026-11-17" },
  },
} as const satisfies PresetAbout;
