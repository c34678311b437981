import type { WebhookScheme } from "../schemes/scheme.js";

export const zendesk = {
  verify: {
    kind: "signature",
    header: "x-zendesk-webhook-signature",
    encoding: "base64",
    signed: "{timestamp}{body}",
    timestamp: { header: "x-zendesk-webhook-signature-timestamp", unit: "iso" },
  },
  // not the body's id: a trigger's body is the customer's own, and its id may be a ticket's
  messageId: "{header:x-zendesk-webhook-invocation-id}",
  topic: "{json:type}",
  tenant: "{json:account_id}",
  keepHeaders: ["x-zendesk-account-id", "x-zendesk-webhook-id", "x-zendesk-webhook-invocation-id"],
} as const satisfies WebhookScheme;
