import { twitch } from "../../../../src/webhooks/presets/twitch.js";
import { describePreset } from "../../../support/presets/describe-preset.js";
import { hmac } from "../../../support/presets/hmac.js";

const body = JSON.stringify({
  subscription: { id: "f1c2a387-161a-49f9-a165-0f21d7a4e1c4", type: "channel.follow", version: "2" },
  event: { user_id: "1337", broadcaster_user_id: "12826" },
});
const headers = (id: string) => ({
  "twitch-eventsub-message-id": id,
  "twitch-eventsub-message-type": "notification",
});

describePreset("twitch", twitch, {
  secret: "keepItSecretKeepItSafe",
  otherSecret: "potaytoesBoilThemMashThem",
  sign: ({ body, headers = {} }, { at, secret }) => {
    const time = at.toISOString().replace("Z", "234626Z"); // with nanoseconds
    const id = headers["twitch-eventsub-message-id"] ?? "";
    return {
      headers: {
        "twitch-eventsub-message-timestamp": time,
        "twitch-eventsub-message-signature": `sha256=${hmac(secret, id + time + body)}`,
      },
    };
  },
  event: { body, headers: headers("befa7b53-d79d-478f-86b9-120f112b044e") },
  otherEvent: { body, headers: headers("befa7b53-d79d-478f-86b9-120f112b044f") },
  stored: [{ messageId: "befa7b53-d79d-478f-86b9-120f112b044e", topic: "channel.follow", tenant: "12826" }],
  handshakes: [
    {
      title: "callback verification",
      body: JSON.stringify({ challenge: "pogchamp-kappa-360noscope-vohiyo", subscription: {} }),
      headers: { ...headers("1"), "twitch-eventsub-message-type": "webhook_callback_verification" },
      signed: true,
      answer: { text: "pogchamp-kappa-360noscope-vohiyo", headers: { "content-type": "text/plain" } },
    },
  ],
});
