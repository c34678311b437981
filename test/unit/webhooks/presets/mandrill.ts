import { expect, it, onTestFinished } from "vitest";
import { mandrill } from "../../../../src/webhooks/presets/mandrill.js";
import { describePreset } from "../../../support/presets/describe-preset.js";
import { hmac, sortedFields } from "../../../support/presets/hmac.js";
import { openPresetRoutes } from "../../../support/presets/preset-route.js";
import type { PresetSample, ProviderEvent } from "../../../support/presets/preset-sample.js";

const batch = (...times: readonly number[]): ProviderEvent => ({
  headers: { "content-type": "application/x-www-form-urlencoded" },
  body: new URLSearchParams({
    mandrill_events: JSON.stringify(times.map((ts) => ({ event: "click", _id: "m1", ts, url: "https://a" }))),
  }).toString(),
});
const stored = { messageId: /^body-sha256:/, topic: "click" };

const sample: PresetSample = {
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
};

describePreset("mandrill", mandrill, sample);

it("FUN-01 mandrill's largest batch, 1,000 events, is accepted", async () => {
  const { open, close } = await openPresetRoutes("mandrill", mandrill, sample);
  onTestFinished(close);
  const route = open();
  const times = Array.from({ length: 1_000 }, (_, index) => index);
  const largest = batch(...times);
  const long = { ...largest, body: largest.body.replaceAll("https%3A%2F%2Fa", "x".repeat(400)) };
  expect((await route.deliver(long)).status, String(route.reason())).toBe(200);
  expect(await route.messages()).toHaveLength(1_000);
});
