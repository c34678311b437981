import type { WebhookScheme } from "../schemes/scheme.js";
import type { PresetAbout } from "./about.js";

export const shopify = {
  verify: { kind: "signature", header: "x-shopify-hmac-sha256", encoding: "base64" },
  messageId: "{header:x-shopify-webhook-id}",
  topic: "{header:x-shopify-topic}",
  // no tenant: the shop is in a header only, which is not signed
  keepHeaders: [
    "x-shopify-topic",
    "x-shopify-shop-domain",
    "x-shopify-api-version",
    "x-shopify-webhook-id",
    "x-shopify-event-id",
    "x-shopify-triggered-at",
  ],
} as const satisfies WebhookScheme;

export const about = {
  name: "Shopify",
  batches: false,
  retries: "8 retries within 4 hours after anything but 2xx.",
  answerWithin: "5 s",
  secret: "The app's client secret, used as text.",
  signs: "The body. Not its headers.",
  idIsUnique: "X-Shopify-Webhook-Id identifies the delivery, and a retry keeps it.",
  checked: { title: "Deliver webhooks through HTTPS", date: "2026-11", with: "documentation" },
} as const satisfies PresetAbout;
