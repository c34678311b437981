import { calendly } from "../../../../src/webhooks/presets/calendly.js";
import { describePreset } from "../../../support/presets/describe-preset.js";
import { hmac } from "../../../support/presets/hmac.js";

const event = {
  created_at: "2020-11-23T17:51:19.000000Z",
  created_by: "https://api.calendly.com/users/AAAAAAAAAAAAAAAA",
  event: "invitee.created",
  payload: { uri: "https://api.calendly.com/scheduled_events/AAAAAAAAAAAAAAAA/invitees/AAAAAAAAAAAAAAAA" },
};

describePreset("calendly", calendly, {
  secret: "5mEzn9C-I28UtwOjZJtFoob0sAAFZ95GbZkqj4y3i0I",
  otherSecret: "6mEzn9C-I28UtwOjZJtFoob0sAAFZ95GbZkqj4y3i0I",
  sign: ({ body }, { at, secret }) => {
    const t = Math.floor(at.getTime() / 1_000);
    return { headers: { "calendly-webhook-signature": `t=${t},v1=${hmac(secret, `${t}.${body}`)}` } };
  },
  event: { body: JSON.stringify(event) },
  otherEvent: { body: JSON.stringify({ ...event, created_at: "2020-11-23T17:52:19.000000Z" }) },
  stored: [
    {
      messageId: `invitee.created/${event.payload.uri}/${event.created_at}`,
      topic: "invitee.created",
      tenant: event.created_by,
    },
  ],
});
