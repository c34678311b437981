import type { Handshake, WebhookScheme } from "../schemes/scheme.js";
import type { PresetAbout } from "./about.js";

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

export const about = {
  name: "X",
  batches: true,
  retries: "The documentation does not say. Missed events can be asked for by a replay job.",
  answerWithin: "10 s",
  secret: "The app's consumer secret (API key secret), used as text.",
  signs: "The body.",
  idIsUnique:
    "Activity API: event_uuid. Account Activity API: the hash of the body; a delivery is one message, since the list's name says what it holds.",
  checked: {
    title: "X API: Webhooks; Activity API event payloads",
    date: "2026-11",
    with: "documentation",
    delivery: {
      page: "Webhooks (X developer platform)",
      date: "2026-11-17",
      notSeen: "how often X sends again",
    },
  },
} as const satisfies PresetAbout;
