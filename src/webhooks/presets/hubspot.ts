import type { WebhookScheme } from "../schemes/scheme.js";
import type { PresetAbout } from "./about.js";

export const hubspot = {
  verify: {
    kind: "signature",
    header: "x-hubspot-signature-v3",
    encoding: "base64",
    signed: "{method}{decodedUrl}{body}{timestamp}",
    timestamp: { header: "x-hubspot-request-timestamp", unit: "ms" },
  },
  split: "{json:}",
  // an eventId alone may occur twice
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

export const about = {
  name: "HubSpot",
  batches: true,
  retries: "Up to 10 retries within 24 hours, after a timeout or an answer of 400 and above.",
  answerWithin: "5 s",
  secret: "The client secret of the app, used as text.",
  signs: "Method, URL, body and time.",
  idIsUnique:
    "HubSpot does not promise that an eventId is unique. With the account, the subscription, the object and the time it is. A retry differs in attemptNumber only.",
  checked: {
    title:
      "Validating requests; Webhooks API (HubSpot developers); hubspot-api-python, hubspot-api-ruby: the tests of signatures",
    date: "2026-11",
    with: "vector",
    delivery: { page: "Webhooks API: Retries (HubSpot developers), as others quote it", date: "2026-11-17" },
  },
} as const satisfies PresetAbout;
