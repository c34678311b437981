import Stripe from "stripe";
import { schemes } from "../../../../src/webhooks/index.js";
import { describePreset } from "../../../support/presets/describe-preset.js";

const { webhooks } = new Stripe("sk_test_unused");
const event = { id: "evt_1", object: "event", type: "charge.succeeded", account: "acct_1" };

describePreset("stripe", schemes.stripe, {
  secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
  otherSecret: "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD",
  sign: ({ body }, { at, secret }) => ({
    headers: {
      "stripe-signature": webhooks.generateTestHeaderString({
        payload: body,
        secret,
        timestamp: Math.floor(at.getTime() / 1_000),
      }),
    },
  }),
  event: { body: JSON.stringify({ ...event, pending_webhooks: 2 }) },
  retry: { body: JSON.stringify({ ...event, pending_webhooks: 1 }) },
  otherEvent: { body: JSON.stringify({ ...event, id: "evt_2" }) },
  stored: [{ messageId: "evt_1", topic: "charge.succeeded", tenant: "acct_1" }],
});
