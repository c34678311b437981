import type { WebhookScheme } from "../schemes/scheme.js";

export const workos = {
  verify: {
    kind: "signature",
    header: "workos-signature",
    separator: ",",
    prefix: "v1=",
    signed: "{timestamp}.{body}",
    timestamp: { header: "workos-signature", separator: ",", prefix: "t=", unit: "ms" },
  },
  messageId: "{json:id}",
  topic: "{json:event}",
  tenant: "{json:data.organization_id}",
  contentTypes: ["application/json"],
} as const satisfies WebhookScheme;
