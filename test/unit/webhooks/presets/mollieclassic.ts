import { mollieclassic } from "../../../../src/webhooks/presets/mollieclassic.js";
import { describePreset } from "../../../support/presets/describe-preset.js";

const form = { "content-type": "application/x-www-form-urlencoded" };

describePreset("mollieclassic", mollieclassic, {
  secret: "s8Ff0gq2V7s1m0X5",
  otherSecret: "s8Ff0gq2V7s1m0X6",
  sign: (_event, { secret }) => ({ query: `token=${secret}` }),
  event: { body: "id=tr_d0b0E3EA3v", headers: form },
  otherEvent: { body: "id=tr_d0b0E3EA3w", headers: form },
  stored: [{ messageId: /./, topic: "mollieclassic-1" }],
  neverDuplicate: true,
  tamper: "unnoticed",
});
