import type { WebhookScheme } from "../schemes/scheme.js";

export const calendly = {
  verify: {
    kind: "signature",
    header: "calendly-webhook-signature",
    separator: ",",
    prefix: "v1=",
    signed: "{timestamp}.{body}",
    timestamp: { header: "calendly-webhook-signature", separator: ",", prefix: "t=" },
  },
  messageId: ["{json:event}/{json:payload.uri}/{json:created_at}", "{hash}"],
  topic: "{json:event}",
  tenant: "{json:created_by}",
  contentTypes: ["application/json"],
} as const satisfies WebhookScheme;
