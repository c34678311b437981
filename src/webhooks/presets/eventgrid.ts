import type { Handshake, WebhookScheme } from "../schemes/scheme.js";
import type { PresetAbout } from "./about.js";

/** Events that come with it are stored. */
const eventGridValidation = {
  method: "POST",
  when: { "{item:eventType}": "Microsoft.EventGrid.SubscriptionValidationEvent" },
  answer: { json: { validationResponse: "{item:data.validationCode}" } },
} as const satisfies Handshake;

/** The handshake of CloudEvents: may events from this origin be sent here? */
const cloudEventsPermission = {
  method: "OPTIONS",
  when: {},
  answer: {
    headers: { "webhook-allowed-origin": "{header:webhook-request-origin}", "webhook-allowed-rate": "*" },
  },
} as const satisfies Handshake;

export const eventgrid = {
  verify: { kind: "token", token: ["{header:x-webhook-token}", "{query:token}"] },
  split: "{json:}",
  // a CloudEvent's id is unique for its source, and that of Event Grid's own schema for its topic. Neither has a space; a slash
  // may be in both parts, and two events would have one id.
  messageId: ["{item:source} {item:id}", "{item:topic} {item:id}", "{item:id}"],
  topic: ["{item:type}", "{item:eventType}"],
  keepHeaders: ["aeg-subscription-name", "aeg-event-type"],
  handshakes: [eventGridValidation, cloudEventsPermission],
} as const satisfies WebhookScheme;

export const about = {
  name: "Azure Event Grid",
  batches: true,
  retries:
    "Retries for up to 24 hours, with growing intervals. Not after 400, 401, 403 and 413: the event is then lost, unless the subscription has a dead-letter destination.",
  answerWithin: "30 s",
  secret:
    "A token of your own, as ?token=… in the endpoint's URL or as the delivery property X-Webhook-Token.",
  signs: "Nothing: the token alone proves the sender.",
  idIsUnique:
    "The id is unique for the event's source (CloudEvents) or topic (Event Grid's schema), and the same in each retry.",
  checked: {
    title: "Event Grid message delivery and retry; CloudEvents v1.0 schema (Azure)",
    date: "2026-11",
    with: "documentation",
    delivery: { page: "Event Grid message delivery and retry", date: "2026-11" },
  },
} as const satisfies PresetAbout;
