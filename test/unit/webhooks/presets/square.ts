import { expect, it } from "vitest";
import { square } from "../../../../src/webhooks/presets/square.js";
import { describePreset } from "../../../support/presets/describe-preset.js";
import { hmac } from "../../../support/presets/hmac.js";

const body =
  '{"merchant_id":"MLEFBHHSJGVHD","type":"webhooks.test_notification","event_id":"ac3ac95b-f97d-458c-a6e6-18981597e05f","created_at":"2022-07-13T20:30:59.037339943Z","data":{"type":"webhooks","id":"bc368e64-01aa-407e-b46e-3231809b1129"}}';

// Square publishes this body with its signature, for another URL than ours.
it("FUN-02 the test signs as Square does", () => {
  const url = "https://webhook.site/679a4f3a-dcfa-49ee-bac5-9d0edad886b9";
  const signature = hmac("Ibxx_5AKakO-3qeNVR61Dw", url + body, "base64");
  expect(signature).toBe("GF4YkrJgGBDZ9NIYbNXBnMzqb2HoL4RW/S6vkZ9/2N4=");
});

describePreset("square", square, {
  secret: "Ibxx_5AKakO-3qeNVR61Dw",
  otherSecret: "MCmhFRxGX82xMwg5FsaoQA",
  sign: ({ body }, { url, secret }) => ({
    headers: { "x-square-hmacsha256-signature": hmac(secret, url + body, "base64") },
  }),
  event: { body },
  otherEvent: { body: body.replace("ac3ac95b", "ac3ac95c") },
  stored: [
    {
      messageId: "ac3ac95b-f97d-458c-a6e6-18981597e05f",
      topic: "webhooks.test_notification",
      tenant: "MLEFBHHSJGVHD",
    },
  ],
});
