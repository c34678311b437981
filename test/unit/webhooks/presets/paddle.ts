import { paddle } from "../../../../src/webhooks/presets/paddle.js";
import { describePreset } from "../../../support/presets/describe-preset.js";
import { hmac } from "../../../support/presets/hmac.js";

const event = {
  event_id: "evt_01hv8wptq8987qeep44cyrewp9",
  event_type: "transaction.paid",
  occurred_at: "2024-04-12T10:18:49.621022Z",
  data: { id: "txn_01hv8wptq8987qeep44cyrewp9" },
};

describePreset("paddle", paddle, {
  secret: "pdl_ntfset_01gkpjp8bkm3tm53kdgkx6sms7_6h3qd3uFSi9YCD3OLYAShQI90XTI5vEI",
  otherSecret: "pdl_ntfset_01gkpjp8bkm3tm53kdgkx6sms8_000000000000000000000000000000000",
  sign: ({ body }, { at, secret }) => {
    const ts = Math.floor(at.getTime() / 1_000);
    return { headers: { "paddle-signature": `ts=${ts};h1=${hmac(secret, `${ts}:${body}`)}` } };
  },
  event: { body: JSON.stringify({ ...event, notification_id: "ntf_01ghbkd0frb9k95cnhwd1bxpvk" }) },
  retry: { body: JSON.stringify({ ...event, notification_id: "ntf_01ghbkd0frb9k95cnhwd1bxpvm" }) },
  otherEvent: { body: JSON.stringify({ ...event, event_id: "evt_01hv8wptq8987qeep44cyrewp0" }) },
  stored: [{ messageId: event.event_id, topic: "transaction.paid" }],
  examples: [
    {
      title: "paddle-node-sdk, with several signatures",
      secret: "VALID_SECRET",
      at: new Date("2023-11-01T00:00:00Z"),
      body: '{"data": "value"}',
      headers: {
        "paddle-signature":
          "ts=1698796800;h1=28981e941fae76e53db32f3d2a83cb69db41476595e84e1970a1b5d98f62b261;h1=28981e941fae76e53db32f3d2a83cb69db41476595e84e1970a1b5d98f62b261;h2=RANDOM_HASH",
      },
    },
  ],
});
