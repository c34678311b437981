import type { Handshake, WebhookScheme } from "../schemes/scheme.js";

/** Graph sends it to a new subscription's address, before anything that could prove the sender is known. */
const validation = {
  method: "POST",
  when: { "{query:validationToken}": true },
  unsigned: true,
  answer: { text: "{query:validationToken}" },
} as const satisfies Handshake;

export const msgraph = {
  verify: { kind: "token", token: "{item:clientState}" },
  split: "{json:value}",
  // two changes of one resource may look alike, so a notification without an id is always new
  messageId: ["{item:subscriptionId}/{item:id}", "{received}"],
  topic: ["{item:lifecycleEvent}", "{item:changeType}"],
  tenant: ["{item:tenantId}", "{item:organizationId}"],
  contentTypes: ["application/json"],
  handshakes: [validation],
  answer: { status: 202 },
  receiveMs: 2_500,
} as const satisfies WebhookScheme;
