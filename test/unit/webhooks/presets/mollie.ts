import { mollie } from "../../../../src/webhooks/presets/mollie.js";
import { describePreset } from "../../../support/presets/describe-preset.js";
import { hmac } from "../../../support/presets/hmac.js";

const event = {
  resource: "event",
  id: "event_GvJ8WHrp5isUdRub9CJyH",
  type: "payment-link.paid",
  entityId: "pl_qng5gbbv8NAZ5gpM5ZYgx",
  createdAt: "2024-12-16T15:57:04.0Z",
};

describePreset("mollie", mollie, {
  secret: "Yb6gjSUdpsFqEuBcN6tKVXW6",
  otherSecret: "Zb6gjSUdpsFqEuBcN6tKVXW6",
  sign: ({ body }, { secret }) => ({ headers: { "x-mollie-signature": `sha256=${hmac(secret, body)}` } }),
  event: { body: JSON.stringify(event) },
  otherEvent: { body: JSON.stringify({ ...event, id: "event_GvJ8WHrp5isUdRub9CJyI" }) },
  stored: [{ messageId: event.id, topic: "payment-link.paid" }],
});
