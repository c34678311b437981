import { mailgun } from "../../../../src/webhooks/presets/mailgun.js";
import { describePreset } from "../../../support/presets/describe-preset.js";
import { hmac, seconds } from "../../../support/presets/hmac.js";
import { unsigned } from "../../../support/presets/preset-sample.js";

const event = (id: string) => ({ body: JSON.stringify({ "event-data": { id, event: "delivered" } }) });
const tokens = { next: 0 };

describePreset("mailgun", mailgun, {
  secret: "mailgun-signing-key",
  otherSecret: "another-signing-key",
  sign: ({ body }, { at, secret }) => {
    const token = `token-${++tokens.next}`; // new for each request
    const timestamp = seconds(at);
    const signature = { timestamp, token, signature: hmac(secret, timestamp + token) };
    return { body: JSON.stringify({ signature, ...JSON.parse(body) }) };
  },
  event: event("CPgfbmQMTCKtHW6uIWtuVe"),
  otherEvent: event("dpgfbmQMTCKtHW6uIWtuVf"),
  stored: [{ messageId: unsigned("CPgfbmQMTCKtHW6uIWtuVe"), topic: "delivered" }],
  ours: { body: JSON.stringify({ signature: { timestamp: "1", token: "2" }, "event-data": { id: "1" } }) },
  tamper: (sent) => ({ ...sent, body: sent.body.replace('"token":"', '"token":"x') }),
});
