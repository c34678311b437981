import type { WebhookScheme } from "../schemes/scheme.js";
import type { PresetAbout } from "./about.js";

export const mollieclassic = {
  verify: { kind: "token", token: "{query:token}" },
  // the body is the id of a payment, which is the same for each change of its status
  messageId: "{received}",
  contentTypes: ["application/x-www-form-urlencoded"],
} as const satisfies WebhookScheme;

export const about = {
  name: "Mollie (classic)",
  batches: false,
  retries: "10 retries within 26 hours, with growing intervals, after each answer but 200.",
  answerWithin: "15 s",
  secret: "A token of your own in the webhook's URL: ?token=…",
  signs:
    "Nothing: the token alone proves the sender. The body has only the id of a payment. Ask Mollie for its status.",
  idIsUnique: "There is none, so each delivery is a new message and a retry may be handled twice.",
  checked: {
    title: "Webhooks (Mollie docs)",
    date: "2026-11",
    with: "documentation",
    delivery: { date: "2026-11-17" },
  },
} as const satisfies PresetAbout;
