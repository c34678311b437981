import type { Handshake, WebhookScheme } from "../schemes/scheme.js";
import type { PresetAbout } from "./about.js";

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

export const about = {
  name: "Microsoft Graph",
  batches: true,
  retries:
    "Retries for up to 4 hours, with growing intervals, after each answer but 2xx. A slow endpoint loses notifications.",
  answerWithin: "3 s",
  secret: "The clientState of the subscription: text of your own, up to 128 characters.",
  signs: "Nothing: clientState alone proves the sender. It is in each notification of the batch.",
  idIsUnique: "The id of a notification, where it has one. Without one each delivery is a new message.",
  checked: {
    title: "Receive change notifications through webhooks (Microsoft Graph)",
    date: "2026-11",
    with: "documentation",
    delivery: { page: "Receive change notifications through webhooks (Microsoft Graph)", date: "2026-11-17" },
  },
} as const satisfies PresetAbout;
