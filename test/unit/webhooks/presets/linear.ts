import { linear } from "../../../../src/webhooks/presets/linear.js";
import { describePreset } from "../../../support/presets/describe-preset.js";
import { hmac } from "../../../support/presets/hmac.js";
import { unsigned } from "../../../support/presets/preset-sample.js";

const delivery = "234d1a4e-b617-4388-90fe-adc3633d6b72";
const event = {
  action: "create",
  type: "Comment",
  organizationId: "cb9d5c30-9a52-4be8-9a4b-bd3a0b0f0d93",
  data: { id: "2174add1-f7c8-44e3-bbf3-2d60b5ea8bc9", body: "Indeed" },
};

describePreset("linear", linear, {
  secret: "lin_wh_hNfF4sbJ2DNF1yOvZWqn",
  otherSecret: "lin_wh_000000000000000000000",
  sign: ({ body }, { at, secret }) => {
    const sent = JSON.stringify({ ...JSON.parse(body), webhookTimestamp: at.getTime() });
    return { body: sent, headers: { "linear-signature": hmac(secret, sent) } };
  },
  event: { body: JSON.stringify(event), headers: { "linear-delivery": delivery, "linear-event": "Comment" } },
  otherEvent: {
    body: JSON.stringify({ ...event, action: "update" }),
    headers: { "linear-delivery": "234d1a4e-b617-4388-90fe-adc3633d6b73" },
  },
  stored: [{ messageId: unsigned(delivery), topic: "Comment.create", tenant: event.organizationId }],
  ours: false, // our signature would have to write the time into the body
});
