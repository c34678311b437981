import type { WebhookScheme } from "../schemes/scheme.js";

export const lemonsqueezy = {
  verify: { kind: "signature", header: "x-signature" },
  messageId: [
    "{json:meta.event_name}/{json:data.type}/{json:data.id}/{json:data.attributes.updated_at}",
    "{hash}",
  ],
  topic: "{json:meta.event_name}",
  tenant: "{json:data.attributes.store_id}",
  contentTypes: ["application/json"],
} as const satisfies WebhookScheme;
