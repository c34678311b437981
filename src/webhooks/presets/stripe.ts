import type { WebhookScheme } from "../schemes/scheme.js";

export const stripe = {
  verify: {
    kind: "signature",
    header: "stripe-signature",
    separator: ",",
    prefix: "v1=",
    signed: "{timestamp}.{body}",
    timestamp: { header: "stripe-signature", separator: ",", prefix: "t=" },
  },
  messageId: "{json:id}",
  topic: "{json:type}",
  // a snapshot event names the connected account in `account`, a thin event in `context`
  tenant: ["{json:account}", "{json:context}"],
  // the number of endpoints that have not answered yet, which differs between two attempts
  volatileFields: ["pending_webhooks"],
  contentTypes: ["application/json"],
} as const satisfies WebhookScheme;
