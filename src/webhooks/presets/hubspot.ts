import type { WebhookScheme } from "../schemes/scheme.js";

export const hubspot = {
  verify: {
    kind: "signature",
    header: "x-hubspot-signature-v3",
    encoding: "base64",
    signed: "{method}{decodedUrl}{body}{timestamp}",
    timestamp: { header: "x-hubspot-request-timestamp", unit: "ms" },
  },
  split: "{json:}",
  // an eventId may occur twice
  messageId: [
    "{item:portalId}/{item:subscriptionId}/{item:eventId}/{item:objectId}/{item:occurredAt}",
    "{item:portalId}/{item:subscriptionId}/{item:eventId}/{item:occurredAt}",
    "{hash}",
  ],
  topic: "{item:subscriptionType}",
  tenant: "{item:portalId}",
  volatileFields: ["attemptNumber"],
  contentTypes: ["application/json"],
  receiveMs: 4_000,
} as const satisfies WebhookScheme;
