import type { WebhookScheme } from "../schemes/scheme.js";
import type { PresetAbout } from "./about.js";

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

export const about = {
  name: "Xero",
  batches: true,
  retries:
    "Retries for 24 hours, less and less often, after each answer but 200. Then the webhook is disabled.",
  answerWithin: "5 s",
  secret: "The webhooks key of the app, used as text.",
  signs: "The body.",
  idIsUnique:
    "An event has no id. Tenant, resource, kind and time identify it, however the events are put together.",
  checked: {
    title: "Configuring your server; Webhooks overview (Xero developer)",
    date: "2026-11",
    with: "documentation",
    delivery: { page: "Configuring your server (Xero developer)", date: "2026-11-17" },
  },
} as const satisfies PresetAbout;
