import type { WebhookScheme } from "../schemes/scheme.js";
import type { PresetAbout } from "./about.js";

export const square = {
  verify: {
    kind: "signature",
    header: "x-square-hmacsha256-signature",
    encoding: "base64",
    signed: "{url}{body}",
  },
  messageId: "{json:event_id}",
  topic: "{json:type}",
  tenant: "{json:merchant_id}",
  keepHeaders: ["square-initial-delivery-timestamp", "square-retry-number", "square-retry-reason"],
  contentTypes: ["application/json"],
} as const satisfies WebhookScheme;

export const about = {
  name: "Square",
  batches: false,
  retries: "Retries for up to 24 hours after each answer but 2xx. Then the event is discarded.",
  answerWithin: "10 s",
  secret: "The signature key of the subscription, used as text.",
  signs: "The notification URL as it is written in the subscription, and the body.",
  idIsUnique: "Square makes event_id for this purpose.",
  checked: {
    title:
      "Validate event notifications; Manage webhook operations (Square developers); square-nodejs-sdk, webhooks.test.ts",
    date: "2026-11",
    with: "vector",
    delivery: {
      page: "Troubleshoot webhooks (Square developer)",
      date: "2026-11-17",
      notSeen: "the 10 s, which an older copy of the page has",
    },
  },
} as const satisfies PresetAbout;
