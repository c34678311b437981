import type { WebhookScheme } from "../schemes/scheme.js";

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
      path: "/v1/notifications/certs/*",
    },
  },
  messageId: "{json:id}",
  topic: "{json:event_type}",
  keepHeaders: ["paypal-transmission-id", "paypal-transmission-time"],
  contentTypes: ["application/json"],
} as const satisfies WebhookScheme;
