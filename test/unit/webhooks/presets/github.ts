import { sign } from "@octokit/webhooks-methods";
import { github } from "../../../../src/webhooks/presets/github.js";
import { describePreset } from "../../../support/presets/describe-preset.js";
import { unsigned } from "../../../support/presets/preset-sample.js";

const body = JSON.stringify({ action: "opened", installation: { id: 42 } });
const headers = { "x-github-event": "issues", "x-github-delivery": "72d3162e", "x-github-hook-id": "7" };

describePreset("github", github, {
  secret: "It's a Secret to Everybody",
  otherSecret: "It's a Secret to Nobody",
  sign: async ({ body: text }, { secret }) => ({
    headers: { "x-hub-signature-256": await sign(secret, text) },
  }),
  event: { headers, body },
  // the same event at another hook, which gets the same delivery id
  otherEvent: { headers: { ...headers, "x-github-hook-id": "8" }, body },
  stored: [{ messageId: unsigned("7/72d3162e"), topic: "issues", tenant: "42" }],
  examples: [
    {
      title: "Validating webhook deliveries",
      secret: "It's a Secret to Everybody",
      headers: {
        "content-type": "application/x-www-form-urlencoded",
        "x-hub-signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
      },
      body: "Hello, World!",
    },
  ],
});
