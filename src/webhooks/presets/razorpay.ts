import type { WebhookScheme } from "../schemes/scheme.js";
import type { PresetAbout } from "./about.js";

export const razorpay = {
  verify: { kind: "signature", header: "x-razorpay-signature" },
  messageId: "{header:x-razorpay-event-id}",
  topic: "{json:event}",
  tenant: "{json:account_id}",
  keepHeaders: ["x-razorpay-event-id"],
  contentTypes: ["application/json"],
  receiveMs: 4_000,
} as const satisfies WebhookScheme;

export const about = {
  name: "Razorpay",
  batches: false,
  retries:
    "Retries for 24 hours, with growing intervals, after each answer but 2xx. Then the webhook is disabled.",
  answerWithin: "5 s",
  secret: "The secret that you gave to the webhook, used as text.",
  signs: "The body. Not the header with the event's id.",
  idIsUnique: "x-razorpay-event-id is unique for each event, and the same in its retries.",
  checked: {
    title:
      "Validate and test webhooks; Webhooks best practices (Razorpay docs); razorpay-node, razorpay-utils.spec.js",
    date: "2026-11",
    with: "vector",
    delivery: { page: "Webhooks: Best practices (Razorpay docs)", date: "2026-11-17", notSeen: "the 5 s" },
  },
} as const satisfies PresetAbout;
