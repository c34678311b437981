import type { WebhookScheme } from "../schemes/scheme.js";
import type { PresetAbout } from "./about.js";

export const paypal = {
  verify: {
    kind: "signature",
    header: "paypal-transmission-sig",
    algorithm: "rsa-sha256",
    encoding: "base64",
    // Nothing says that a retry, days later, has a new time. So the time is signed and not checked.
    signed: "{header:paypal-transmission-id}|{header:paypal-transmission-time}|{secret}|{crc32}",
    certificate: {
      url: "{header:paypal-cert-url}",
      hosts: ["api.paypal.com", "api-m.paypal.com", "api.sandbox.paypal.com", "api-m.sandbox.paypal.com"],
    },
  },
  messageId: "{json:id}",
  topic: "{json:event_type}",
  keepHeaders: ["paypal-transmission-id", "paypal-transmission-time"],
  contentTypes: ["application/json"],
} as const satisfies WebhookScheme;

export const about = {
  name: "PayPal",
  batches: false,
  retries: "Up to 25 retries within 3 days, after each answer but 2xx.",
  answerWithin: undefined,
  secret: "The id of the webhook (17 letters and digits). It is not secret. PayPal signs with its own key.",
  signs:
    "Transmission id and time, webhook id, and the CRC-32 of the body. Whoever has a copy of a delivery can make another body with the same CRC-32: ask PayPal for the event by its id before you rely on it.",
  idIsUnique: "The event's id. PayPal keeps it when it sends the event again.",
  checked: {
    title: "Integrate webhooks (PayPal developer); PayPal-Python-SDK, notifications.py",
    date: "2026-11",
    with: "documentation",
    delivery: { page: "Webhooks overview (PayPal developer), as others quote it", date: "2026-11-17" },
  },
} as const satisfies PresetAbout;
