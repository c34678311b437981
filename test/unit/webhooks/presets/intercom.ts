import { intercom } from "../../../../src/webhooks/presets/intercom.js";
import { describePreset } from "../../../support/presets/describe-preset.js";
import { hmac } from "../../../support/presets/hmac.js";

const event = {
  type: "notification_event",
  app_id: "a1b2c3",
  id: "notif_ccd8a4d0-f965-11e3-a367-c779cae3e1b3",
  topic: "conversation.user.created",
  data: { type: "notification_event_data", item: { type: "conversation", id: "1" } },
};

describePreset("intercom", intercom, {
  secret: "9b2ab5a6-0b4c-4a70-a2cc-e4b1a0c6e6a5",
  otherSecret: "00000000-0b4c-4a70-a2cc-e4b1a0c6e6a5",
  sign: ({ body }, { secret }) => ({
    headers: { "x-hub-signature": `sha1=${hmac(secret, body, "hex", "sha1")}` },
  }),
  event: { body: JSON.stringify({ ...event, delivery_attempts: 1, first_sent_at: 1893456000 }) },
  retry: { body: JSON.stringify({ ...event, delivery_attempts: 2, first_sent_at: 1893456000 }) },
  otherEvent: { body: JSON.stringify({ ...event, id: "notif_2" }) },
  stored: [{ messageId: event.id, topic: "conversation.user.created", tenant: "a1b2c3" }],
  handshakes: [{ title: "HEAD", method: "HEAD", body: "", answer: {} }],
});
