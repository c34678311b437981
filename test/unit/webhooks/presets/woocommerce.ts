import { woocommerce } from "../../../../src/webhooks/presets/woocommerce.js";
import { describePreset } from "../../../support/presets/describe-preset.js";
import { hmac } from "../../../support/presets/hmac.js";
import { unsigned } from "../../../support/presets/preset-sample.js";

const headers = {
  "x-wc-webhook-id": "12",
  "x-wc-webhook-delivery-id": "4ddb6a7d0d7a7f2bb7ff6a4c5a3a3e2c",
  "x-wc-webhook-topic": "order.created",
  "x-wc-webhook-source": "https://shop.example.com/",
};

describePreset("woocommerce", woocommerce, {
  secret: "H`TS6<1.Bk<DSk9}L[D@y~Zk",
  otherSecret: "I`TS6<1.Bk<DSk9}L[D@y~Zk",
  sign: ({ body }, { secret }) => ({
    headers: { "x-wc-webhook-signature": hmac(secret, body, "base64") },
  }),
  event: { body: JSON.stringify({ id: 727, status: "processing" }), headers },
  // within the same second, and so with the same delivery id
  otherEvent: { body: JSON.stringify({ id: 728, status: "processing" }), headers },
  stored: [{ messageId: unsigned("12/4ddb6a7d0d7a7f2bb7ff6a4c5a3a3e2c"), topic: "order.created" }],
  handshakes: ["application/x-www-form-urlencoded", "application/x-www-form-urlencoded; charset=UTF-8"].map(
    (type) => ({
      title: `ping, ${type}`,
      body: "webhook_id=12",
      headers: { "content-type": type },
      answer: {},
    }),
  ),
});
