import { mandrill } from "../../../../src/webhooks/presets/mandrill.js";
import { describePreset } from "../../../support/presets/describe-preset.js";
import { hmac, sortedFields } from "../../../support/presets/hmac.js";
import type { ProviderEvent } from "../../../support/presets/preset-sample.js";

const batch = (...times: readonly number[]): ProviderEvent => ({
  headers: { "content-type": "application/x-www-form-urlencoded" },
  body: new URLSearchParams({
    mandrill_events: JSON.stringify(times.map((ts) => ({ event: "click", _id: "m1", ts, url: "https://a" }))),
  }).toString(),
});
const stored = { messageId: /^body-sha256:/, topic: "click" };

describePreset("mandrill", mandrill, {
  secret: "mandrill-key",
  otherSecret: "another-key",
  sign: ({ body }, { url, secret }) => ({
    headers: { "x-mandrill-signature": hmac(secret, url + sortedFields(body), "base64", "sha1") },
  }),
  event: batch(1, 2),
  otherEvent: batch(4),
  stored: [stored, stored],
  cutAgain: { batches: [batch(1), batch(2, 3)], stored: [stored, stored, stored] },
  handshakes: [
    { title: "the URL exists", method: "HEAD", body: "", answer: {} },
    { title: "an empty list", signed: true, ...batch(), answer: {} },
  ],
});
