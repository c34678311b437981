import { trello } from "../../../../src/webhooks/presets/trello.js";
import { describePreset } from "../../../support/presets/describe-preset.js";
import { hmac } from "../../../support/presets/hmac.js";

const event = (model: string) => ({
  body: JSON.stringify({
    action: { id: "51f9424bcd6e040f3c002412", type: "updateCard" },
    model: { id: model },
  }),
});

describePreset("trello", trello, {
  secret: "trello-oauth-secret",
  otherSecret: "another-oauth-secret",
  sign: ({ body }, { url, secret }) => ({
    headers: { "x-trello-webhook": hmac(secret, body + url, "base64", "sha1") },
  }),
  event: event("board1"),
  // the same action, reported by the webhook of the card
  otherEvent: event("card1"),
  stored: [{ messageId: "board1/51f9424bcd6e040f3c002412", topic: "updateCard" }],
  handshakes: [{ title: "the URL exists", method: "HEAD", body: "", answer: {} }],
});
