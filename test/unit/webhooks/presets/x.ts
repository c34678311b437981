import { x } from "../../../../src/webhooks/presets/x.js";
import { describePreset } from "../../../support/presets/describe-preset.js";
import { hmac } from "../../../support/presets/hmac.js";
import type { PresetSample } from "../../../support/presets/preset-sample.js";

const secret = "x-consumer-secret";
const followed = (id: string) => ({
  body: JSON.stringify({ for_user_id: "2244994945", tweet_create_events: [{ id_str: id }] }),
});

const sample: PresetSample = {
  secret,
  otherSecret: "another-consumer-secret",
  sign: ({ body }, { secret: key }) => ({
    headers: { "x-twitter-webhooks-signature": `sha256=${hmac(key, body, "base64")}` },
  }),
  event: followed("1"),
  otherEvent: followed("2"),
  stored: [{ messageId: /^body-sha256:/, topic: /^x-/, tenant: "2244994945" }],
  handshakes: [
    {
      title: "challenge-response check",
      method: "GET",
      query: "crc_token=MGI2NTBi",
      body: "",
      answer: { json: { response_token: `sha256=${hmac(secret, "MGI2NTBi", "base64")}` } },
    },
  ],
};

describePreset("x", x, sample);

const activity = (id: string) => ({
  body: JSON.stringify({ data: { event_uuid: id, event_type: "post.create", filter: { user_id: "11" } } }),
});
describePreset("x, the Activity API", x, {
  ...sample,
  event: activity("2080761390344937796"),
  otherEvent: activity("2080761390344937797"),
  stored: [{ messageId: "2080761390344937796", topic: "post.create", tenant: "11" }],
  handshakes: [],
});
