import type { Handshake, WebhookScheme } from "../schemes/scheme.js";

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
