import type { WebhookScheme } from "../schemes/scheme.js";
import type { PresetAbout } from "./about.js";

/** Webhooks have headers X-Shopify-…, and Shopify's newer events the same without X-. */
export const shopify = {
  verify: {
    kind: "signature",
    header: "x-shopify-hmac-sha256|shopify-hmac-sha256",
    encoding: "base64",
  },
  messageId: ["{header:x-shopify-webhook-id}", "{header:shopify-webhook-id}"],
  topic: ["{header:x-shopify-topic}", "{header:shopify-topic}"],
  // no tenant: the shop is in a header only, which is not signed
  keepHeaders: [
    "x-shopify-topic",
    "x-shopify-shop-domain",
    "x-shopify-api-version",
    "x-shopify-webhook-id",
    "x-shopify-event-id",
    "x-shopify-triggered-at",
    "shopify-topic",
    "shopify-shop-domain",
    "shopify-api-version",
    "shopify-webhook-id",
    "shopify-event-id",
    "shopify-triggered-at",
    "shopify-action",
    "shopify-resource-id",
  ],
  receiveMs: 4_000,
} as const satisfies WebhookScheme;

export const about = {
  name: "Shopify",
  batches: false,
  retries: "8 times in 4 hours after anything but 2xx. Then a subscription made by the Admin API is deleted.",
  answerWithin: "5 s",
  secret: "The app's client secret, used as text.",
  signs: "The body. Not the headers: neither id, topic nor shop.",
  idIsUnique: "X-Shopify-Webhook-Id is unique for each delivery to a subscription, and a retry keeps it.",
  checked: {
    title: "Verify webhook deliveries",
    date: "2026-11",
    with: "sdk",
    delivery: {
      page: "Updates to webhook retry mechanism (Shopify changelog); an answer in Shopify's developer forum",
      date: "2026-11-17",
      notSeen: "the 5 s and the deletion, other than in the forum",
    },
  },
} as const satisfies PresetAbout;
