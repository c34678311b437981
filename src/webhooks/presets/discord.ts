import type { Handshake, WebhookScheme } from "../schemes/scheme.js";

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
