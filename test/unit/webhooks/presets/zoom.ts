import { zoom } from "../../../../src/webhooks/presets/zoom.js";
import { describePreset } from "../../../support/presets/describe-preset.js";
import { hmac, seconds } from "../../../support/presets/hmac.js";

const secret = "zoom-secret-token";
const event = (at: number) => ({
  body: JSON.stringify({ event: "meeting.started", event_ts: at, payload: { account_id: "AAAAAABBBB" } }),
});

describePreset("zoom", zoom, {
  secret,
  otherSecret: "another-secret-token",
  sign: ({ body }, { at, secret: key }) => ({
    headers: {
      "x-zm-request-timestamp": seconds(at),
      "x-zm-signature": `v0=${hmac(key, `v0:${seconds(at)}:${body}`)}`,
    },
  }),
  event: event(1893456000000),
  otherEvent: event(1893456000001),
  stored: [{ messageId: /^body-sha256:/, topic: "meeting.started", tenant: "AAAAAABBBB" }],
  handshakes: [
    {
      title: "endpoint.url_validation",
      signed: true,
      body: '{"payload":{"plainToken":"qgg8vlvZRS6UYooatFL8Aw"},"event_ts":1654503849680,"event":"endpoint.url_validation"}',
      answer: {
        json: {
          plainToken: "qgg8vlvZRS6UYooatFL8Aw",
          encryptedToken: hmac(secret, "qgg8vlvZRS6UYooatFL8Aw"),
        },
      },
    },
  ],
});
