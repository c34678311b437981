import { generateKeyPairSync, sign as signBytes } from "node:crypto";
import { discord } from "../../../../src/webhooks/presets/discord.js";
import { describePreset } from "../../../support/presets/describe-preset.js";
import { seconds } from "../../../support/presets/hmac.js";
import type { PresetSample } from "../../../support/presets/preset-sample.js";

const { publicKey, privateKey } = generateKeyPairSync("ed25519");
const other = generateKeyPairSync("ed25519");
const inHex = (key: typeof publicKey) =>
  Buffer.from(key.export({ format: "jwk" }).x!, "base64url").toString("hex");

const sample: PresetSample = {
  secret: inHex(publicKey),
  otherSecret: inHex(other.publicKey),
  sign: ({ body }, { at }) => ({
    headers: {
      "x-signature-timestamp": seconds(at),
      "x-signature-ed25519": signBytes(null, Buffer.from(seconds(at) + body), privateKey).toString("hex"),
    },
  }),
  event: event("2029-12-31T23:59:59.064834"),
  otherEvent: event("2029-12-31T23:59:59.064835"),
  stored: [{ messageId: /^body-sha256:/, topic: "APPLICATION_AUTHORIZED", tenant: "g1" }],
  answer: { status: 204, text: "" },
  handshakes: [
    {
      title: "PING of webhook events",
      signed: true,
      body: '{"version":1,"application_id":"1","type":0}',
      answer: { status: 204, text: "" },
    },
    {
      title: "PING of interactions",
      signed: true,
      body: '{"id":"9","application_id":"1","type":1,"token":"t","version":1}',
      answer: { json: { type: 1 } },
    },
  ],
  ours: false, // the public key cannot sign
};

function event(timestamp: string) {
  const inner = { type: "APPLICATION_AUTHORIZED", timestamp, data: { guild: { id: "g1" } } };
  return { body: JSON.stringify({ version: 1, application_id: "1", type: 1, event: inner }) };
}

describePreset("discord", discord, sample);

const interaction = (id: string) => ({
  body: JSON.stringify({ id, type: 2, token: "t", guild_id: "g1", data: { name: "hello" } }),
});
describePreset("discord, an interaction", discord, {
  ...sample,
  event: interaction("786008729715212338"),
  otherEvent: interaction("786008729715212339"),
  stored: [{ messageId: "786008729715212338", topic: "interaction.2", tenant: "g1" }],
  handshakes: [],
});
