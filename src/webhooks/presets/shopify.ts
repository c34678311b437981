import type { WebhookScheme } from "../schemes/scheme.js";

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
