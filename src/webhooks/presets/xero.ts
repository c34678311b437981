import type { WebhookScheme } from "../schemes/scheme.js";

export const xero = {
  verify: { kind: "signature", header: "x-xero-signature", encoding: "base64" },
  split: "{json:events}",
  messageId: "{item:tenantId}/{item:eventCategory}/{item:eventType}/{item:resourceId}/{item:eventDateUtc}",
  topic: "{item:eventCategory}.{item:eventType}",
  tenant: "{item:tenantId}",
  contentTypes: ["application/json"],
  // Xero refuses an endpoint that answers with a body. Its "intent to receive" sends right and wrong signatures.
  answer: { status: 200 },
  refusals: { unauthorized: { status: 401 } },
  receiveMs: 4_000,
} as const satisfies WebhookScheme;
