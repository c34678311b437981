import type { Handshake, WebhookScheme } from "../schemes/scheme.js";
import type { PresetAbout } from "./about.js";

const eventGridValidation = {
  method: "POST",
  when: { "{json:0.eventType}": "Microsoft.EventGrid.SubscriptionValidationEvent" },
  answer: { json: { validationResponse: "{json:0.data.validationCode}" } },
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
  // only for a single CloudEvent; a list of events may be divided differently when it is sent again
  messageId: "{json:id}",
  topic: ["{json:type}", "{json:0.eventType}", "{json:0.type}"],
  keepHeaders: ["aeg-subscription-name", "aeg-event-type"],
  handshakes: [eventGridValidation, cloudEventsPermission],
} as const satisfies WebhookScheme;

export const about = {
  name: "Azure Event Grid",
  batches: true,
  retries: "Retries for up to 24 hours, except after 400, 401, 403, 404 and 413.",
  answerWithin: "30 s",
  secret: "A token of your own in the subscription's URL or delivery property.",
  signs: "Nothing: the token alone proves the sender.",
  idIsUnique: "An id is unique for its source.",
  checked: { title: "Event Grid message delivery and retry", date: "2026-11", with: "documentation" },
} as const satisfies PresetAbout;
