import Stripe from "stripe";
import { stripe } from "../../../../src/webhooks/presets/stripe.js";
import { describePreset } from "../../../support/presets/describe-preset.js";
import { seconds } from "../../../support/presets/hmac.js";
import type { PresetSample } from "../../../support/presets/preset-sample.js";

const { webhooks } = new Stripe("sk_test_unused");
const event = { id: "evt_1", object: "event", type: "charge.succeeded", account: "acct_1" };

const sample: PresetSample = {
  secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
  otherSecret: "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD",
  sign: ({ body }, { at, secret }) => ({
    headers: {
      "stripe-signature": webhooks.generateTestHeaderString({
        payload: body,
        secret,
        timestamp: Number(seconds(at)),
      }),
    },
  }),
  event: { body: JSON.stringify({ ...event, pending_webhooks: 2 }) },
  retry: { body: JSON.stringify({ ...event, pending_webhooks: 1 }) },
  otherEvent: { body: JSON.stringify({ ...event, id: "evt_2" }) },
  stored: [{ messageId: "evt_1", topic: "charge.succeeded", tenant: "acct_1" }],
};

describePreset("stripe", stripe, sample);

const thin = { id: "evt_3", object: "v2.core.event", type: "v1.billing.meter.error_report_triggered" };
describePreset("stripe, thin events", stripe, {
  ...sample,
  event: { body: JSON.stringify({ ...thin, context: "acct_2" }) },
  retry: { body: JSON.stringify({ ...thin, context: "acct_2" }) },
  otherEvent: { body: JSON.stringify({ ...thin, id: "evt_4" }) },
  stored: [{ messageId: "evt_3", topic: thin.type, tenant: "acct_2" }],
});
