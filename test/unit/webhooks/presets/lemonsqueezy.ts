import { lemonsqueezy } from "../../../../src/webhooks/presets/lemonsqueezy.js";
import { describePreset } from "../../../support/presets/describe-preset.js";
import { hmac } from "../../../support/presets/hmac.js";

const attributes = { store_id: 7, updated_at: "2030-01-01T00:00:00.000000Z" };
const event = {
  meta: { event_name: "subscription_updated" },
  data: { type: "subscriptions", id: "1", attributes },
};

describePreset("lemonsqueezy", lemonsqueezy, {
  secret: "a-signing-secret-of-mine",
  otherSecret: "b-signing-secret-of-mine",
  sign: ({ body }, { secret }) => ({ headers: { "x-signature": hmac(secret, body) } }),
  event: { body: JSON.stringify(event) },
  otherEvent: {
    body: JSON.stringify({
      ...event,
      data: { ...event.data, attributes: { ...attributes, updated_at: "later" } },
    }),
  },
  stored: [
    {
      messageId: "subscription_updated/subscriptions/1/2030-01-01T00:00:00.000000Z",
      topic: "subscription_updated",
      tenant: "7",
    },
  ],
});
