import type { WebhookScheme } from "../schemes/scheme.js";

export const linear = {
  verify: {
    kind: "signature",
    header: "linear-signature",
    timestamp: { json: "webhookTimestamp", unit: "ms" },
  },
  messageId: "{header:linear-delivery}",
  topic: "{json:type}.{json:action}",
  tenant: "{json:organizationId}",
  keepHeaders: ["linear-event", "linear-delivery"],
  // the time of sending, which a retry has anew
  volatileFields: ["webhookTimestamp"],
  contentTypes: ["application/json"],
  receiveMs: 4_000,
} as const satisfies WebhookScheme;
