import { dropbox } from "../../../../src/webhooks/presets/dropbox.js";
import { describePreset } from "../../../support/presets/describe-preset.js";
import { hmac } from "../../../support/presets/hmac.js";

describePreset("dropbox", dropbox, {
  secret: "6tbfrrs8hxs0r8k",
  otherSecret: "7tbfrrs8hxs0r8k",
  sign: ({ body }, { secret }) => ({ headers: { "x-dropbox-signature": hmac(secret, body) } }),
  event: { body: '{"list_folder":{"accounts":["dbid:AAH4f99T0taONIb-OurWxbNQ6ywGRopQngc"]}}' },
  otherEvent: { body: '{"list_folder":{"accounts":["dbid:AAH4f99T0taONIb-OurWxbNQ6ywGRopQngd"]}}' },
  stored: [{ messageId: /./, topic: "dropbox-1" }],
  neverDuplicate: true,
  handshakes: [
    { title: "challenge", method: "GET", body: "", query: "challenge=abc123", answer: { text: "abc123" } },
  ],
});
