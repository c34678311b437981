import type { Handshake, WebhookScheme } from "../schemes/scheme.js";
import type { PresetAbout } from "./about.js";

/** The test when the webhook is saved: a form without a signature. Events are JSON. */
const ping = <Type extends string>(type: Type) =>
  ({
    method: "POST",
    when: { "{header:content-type}": type },
    unsigned: true,
    answer: {},
  }) as const satisfies Handshake;

export const woocommerce = {
  verify: { kind: "signature", header: "x-wc-webhook-signature", encoding: "base64" },
  messageId: "{header:x-wc-webhook-id}/{header:x-wc-webhook-delivery-id}",
  topic: "{header:x-wc-webhook-topic}",
  keepHeaders: [
    "x-wc-webhook-source",
    "x-wc-webhook-topic",
    "x-wc-webhook-resource",
    "x-wc-webhook-event",
    "x-wc-webhook-id",
    "x-wc-webhook-delivery-id",
  ],
  contentTypes: ["application/json"],
  handshakes: [
    ping("application/x-www-form-urlencoded"),
    ping("application/x-www-form-urlencoded; charset=UTF-8"),
  ],
} as const satisfies WebhookScheme;

export const about = {
  name: "WooCommerce",
  batches: false,
  retries:
    "An event is never sent again. After more than 5 failures in a row the webhook is disabled; 2xx, 301 and 302 are no failures.",
  answerWithin: "60 s",
  secret: "The secret of the webhook, used as text.",
  signs: "The body. Not the headers, so neither the id nor the topic.",
  idIsUnique:
    "The delivery id is made of the webhook and the second. Two deliveries within a second differ by the part that we add: a hash of the content.",
  checked: {
    title: "woocommerce, class-wc-webhook.php",
    date: "2026-11",
    with: "documentation",
    delivery: {
      page: "Working with webhooks (WooCommerce docs), as others quote it",
      date: "2026-11-17",
      notSeen: "the 60 s",
    },
  },
} as const satisfies PresetAbout;
