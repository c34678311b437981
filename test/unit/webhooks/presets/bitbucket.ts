import { bitbucket } from "../../../../src/webhooks/presets/bitbucket.js";
import { describePreset } from "../../../support/presets/describe-preset.js";
import { hmac } from "../../../support/presets/hmac.js";
import { unsigned } from "../../../support/presets/preset-sample.js";

const headers = { "x-event-key": "repo:push", "x-request-uuid": "b1a2", "x-attempt-number": "1" };
const body = '{"push":{"changes":[]}}';

describePreset("bitbucket", bitbucket, {
  secret: "bitbucket-secret",
  otherSecret: "another-secret",
  sign: ({ body: text }, { secret }) => ({ headers: { "x-hub-signature": `sha256=${hmac(secret, text)}` } }),
  event: { headers, body },
  retry: { headers: { ...headers, "x-attempt-number": "2" }, body },
  otherEvent: { headers: { ...headers, "x-request-uuid": "b1a3" }, body },
  stored: [{ messageId: unsigned("b1a2"), topic: "repo:push" }],
  examples: [
    {
      title: "Manage webhooks: secure webhooks",
      secret: "It's a Secret to Everybody",
      headers: {
        "content-type": "text/plain",
        "x-hub-signature": "sha256=a4771c39fbe90f317c7824e83ddef3caae9cb3d976c214ace1f2937e133263c9",
      },
      body: "Hello World!",
    },
  ],
});
