import type { Handshake, WebhookScheme } from "../schemes/scheme.js";
import type { PresetAbout } from "./about.js";

/** Of the URL for webhook events. */
const eventsPing = {
  method: "POST",
  when: { "{json:type}": "0" },
  answer: { status: 204 },
} as const satisfies Handshake;

/** Of the URL for interactions, which all have a token. A webhook event has the type 1, too. */
const interactionsPing = {
  method: "POST",
  when: { "{json:type}": "1", "{json:token}": true },
  answer: { json: { type: 1 } },
} as const satisfies Handshake;

export const discord = {
  verify: {
    kind: "signature",
    header: "x-signature-ed25519",
    algorithm: "ed25519",
    secretEncoding: "hex",
    signed: "{timestamp}{body}",
    // nothing says that a retry, up to 10 minutes later, is signed with a new time
    timestamp: { header: "x-signature-timestamp", maxAgeMs: 15 * 60_000 },
  },
  messageId: "{json:id}",
  topic: ["{json:event.type}", "interaction.{json:type}"],
  tenant: ["{json:guild_id}", "{json:event.data.guild.id}"],
  contentTypes: ["application/json"],
  handshakes: [eventsPing, interactionsPing],
  answer: { status: 204 },
  receiveMs: 2_000,
} as const satisfies WebhookScheme;

export const about = {
  name: "Discord",
  batches: false,
  retries: "Events: several times within 10 minutes. Interactions: never; the user sees an error.",
  answerWithin: "3 s",
  secret: "The application's public key: Ed25519 in hexadecimal.",
  signs: "Timestamp and body. The time may be 15 minutes old, for retries.",
  idIsUnique:
    "An interaction has a unique id. A webhook event has none: the hash of the body, with the event's time in microseconds.",
  checked: {
    title: "Webhook events; Interactions overview",
    date: "2026-11",
    with: "documentation",
    delivery: {
      page: "Webhook events; Receiving and responding to interactions (Discord docs)",
      date: "2026-11-17",
      notSeen: "that interactions are never sent again",
    },
  },
} as const satisfies PresetAbout;
