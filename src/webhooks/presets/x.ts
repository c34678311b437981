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
  // no id and no type: a delivery has a list of new objects under a name of its own, such as tweet_create_events
  tenant: "{json:for_user_id}",
  contentTypes: ["application/json"],
  handshakes: [crc],
} as const satisfies WebhookScheme;

export const about = {
  name: "X",
  batches: true,
  retries: "For up to 4 hours after anything but 2xx, for customers with the replay of events; else never.",
  answerWithin: "10 s",
  secret: "The app's consumer secret (API key secret), used as text.",
  signs: "The body.",
  idIsUnique:
    "X gives no id: the hash of the body. A delivery is one message, since the list's name says what it holds.",
  checked: { title: "Account Activity API: securing webhooks", date: "2026-11", with: "documentation" },
} as const satisfies PresetAbout;
