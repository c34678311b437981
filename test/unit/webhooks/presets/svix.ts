import { Webhook } from "standardwebhooks";
import type { WebhookScheme } from "../../../../src/webhooks/index.js";
import { clerk } from "../../../../src/webhooks/presets/clerk.js";
import { resend } from "../../../../src/webhooks/presets/resend.js";
import { standard } from "../../../../src/webhooks/presets/standard.js";
import { svix } from "../../../../src/webhooks/presets/svix.js";
import { describePreset } from "../../../support/presets/describe-preset.js";
import { seconds } from "../../../support/presets/hmac.js";
import type { PresetSample } from "../../../support/presets/preset-sample.js";

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/** Standard Webhooks has the signature of Svix, which signs by the same library, under other names of headers. */
const sample = (prefix: "svix" | "webhook"): PresetSample => ({
  secret,
  otherSecret: "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD",
  sign: ({ body, headers }, { at, secret: key }) => ({
    headers: {
      [`${prefix}-timestamp`]: seconds(at),
      [`${prefix}-signature`]: new Webhook(key).sign(headers![`${prefix}-id`]!, at, body),
    },
  }),
  event: { headers: { [`${prefix}-id`]: "msg_1" }, body: '{"type":"user.created","data":{}}' },
  otherEvent: { headers: { [`${prefix}-id`]: "msg_2" }, body: '{"type":"user.created","data":{}}' },
  stored: [{ messageId: "msg_1", topic: "user.created" }],
  ours: { messageId: "msg_1" },
  examples: [
    {
      title: "the test of the reference library",
      secret,
      at: new Date(1614265330_000),
      headers: {
        [`${prefix}-id`]: "msg_p5jXN8AQM9LWM0D4loKWxJek",
        [`${prefix}-timestamp`]: "1614265330",
        [`${prefix}-signature`]: "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
      },
      body: '{"test": 2432232314}',
      stored: { messageId: "msg_p5jXN8AQM9LWM0D4loKWxJek" },
    },
  ],
});

describePreset("svix", svix, sample("svix"));
describePreset("clerk", clerk, sample("svix"));
describePreset("resend", resend, sample("svix"));
describePreset("standard", standard, sample("webhook"));
describePreset("standard, headers svix-…", standard, sample("svix"));
describePreset("standard, a secret v1,whsec_…", standard, {
  ...sample("webhook"),
  secret: `v1,${secret}`,
  signingSecret: secret,
  examples: [],
});
const padded = Buffer.alloc(25, 7).toString("base64");
describePreset("standard, a secret without the padding of base64", standard, {
  ...sample("webhook"),
  secret: `whsec_${padded.replace(/=+$/, "")}`,
  signingSecret: `whsec_${padded}`,
  examples: [],
});
/** Some senders give out the key's text, and not its base64. */
const ofText: WebhookScheme = {
  ...standard,
  verify: { ...standard.verify, keys: [{ algorithm: "sha256", prefix: "v1," }] },
};
describePreset("standard, a raw secret where the scheme says so", ofText, {
  ...sample("webhook"),
  secret: "a raw secret, not base64",
  otherSecret: "a raw secret, not base65",
  sign: ({ body, headers }, { at, secret: key }) => ({
    headers: {
      "webhook-timestamp": seconds(at),
      "webhook-signature": new Webhook(key, { format: "raw" }).sign(headers!["webhook-id"]!, at, body),
    },
  }),
  examples: [],
});
