import type { WebhookScheme } from "../schemes/scheme.js";

export const plaid = {
  verify: {
    kind: "jwt",
    token: "{header:plaid-verification}",
    algorithms: ["ES256"],
    bodyHash: "request_body_sha256",
  },
  // a webhook says that there is something new, in the same words each time
  messageId: "{received}",
  topic: "{json:webhook_type}.{json:webhook_code}",
  tenant: "{json:item_id}",
  contentTypes: ["application/json"],
} as const satisfies WebhookScheme;
