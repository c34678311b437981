import { razorpay } from "../../../../src/webhooks/presets/razorpay.js";
import { describePreset } from "../../../support/presets/describe-preset.js";
import { hmac } from "../../../support/presets/hmac.js";
import { unsigned } from "../../../support/presets/preset-sample.js";

const event = { entity: "event", account_id: "acc_BFQ7uQEaa7j2z7", event: "payment.authorized", payload: {} };

describePreset("razorpay", razorpay, {
  secret: "a-secret-of-the-webhook",
  otherSecret: "a-secret-of-another-one",
  sign: ({ body }, { secret }) => ({ headers: { "x-razorpay-signature": hmac(secret, body) } }),
  event: { body: JSON.stringify(event), headers: { "x-razorpay-event-id": "OuIo9tMEHtWsbS" } },
  otherEvent: { body: JSON.stringify(event), headers: { "x-razorpay-event-id": "OuIo9tMEHtWsbT" } },
  stored: [
    { messageId: unsigned("OuIo9tMEHtWsbS"), topic: "payment.authorized", tenant: "acc_BFQ7uQEaa7j2z7" },
  ],
  examples: [
    {
      title: "razorpay-node, razorpay-utils.spec.js",
      secret: "123456",
      body: '{"a":1,"b":2,"c":{"d":3}}',
      headers: {
        "x-razorpay-signature": "2fe04e22977002e6c7cb553adab8b460cb9e2a4970d5953cb27a8472752e3bbc",
      },
    },
  ],
});
