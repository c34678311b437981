import type { Handshake, WebhookScheme } from "../schemes/scheme.js";

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
