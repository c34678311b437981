import type { Handshake, WebhookScheme } from "../schemes/scheme.js";

/** The challenge-response check, when a webhook is registered and each hour after that. */
const crc = {
  method: "GET",
  when: { "{query:crc_token}": true },
  unsigned: true,
  answer: { json: { response_token: "sha256={hmac}" }, hmac: "{query:crc_token}" },
} as const satisfies Handshake;

export const x = {
  verify: {
    kind: "signature",
    header: "x-twitter-webhooks-signature",
    prefix: "sha256=",
    encoding: "base64",
  },
  // only events of the Activity API have an id and a type; older ones are lists under names like tweet_create_events
  messageId: "{json:data.event_uuid}",
  topic: "{json:data.event_type}",
  tenant: ["{json:for_user_id}", "{json:data.filter.user_id}"],
  contentTypes: ["application/json"],
  handshakes: [crc],
  receiveMs: 2_000,
} as const satisfies WebhookScheme;
