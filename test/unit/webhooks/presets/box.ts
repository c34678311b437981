import { box } from "../../../../src/webhooks/presets/box.js";
import { describePreset } from "../../../support/presets/describe-preset.js";
import { hmac } from "../../../support/presets/hmac.js";

const event = {
  type: "webhook_event",
  id: "eb0c4e06-751f-442c-86f8-fd5bb404dbec",
  trigger: "FILE.UPLOADED",
  webhook: { id: "53", type: "webhook" },
};

describePreset("box", box, {
  secret: "SamplePrimaryKey",
  otherSecret: "IncorrectKeyOfSomebody",
  sign: ({ body }, { at, secret }) => {
    const time = at.toISOString();
    const signature = (key: string) => hmac(key, body + time, "base64");
    return {
      headers: {
        "box-delivery-timestamp": time,
        "box-signature-primary": signature("a key that was changed"),
        "box-signature-secondary": signature(secret),
        "box-signature-version": "1",
      },
    };
  },
  event: {
    body: JSON.stringify(event),
    headers: { "box-delivery-id": "f96bb54b-ee16-4fc5-aa65-8c2d9e5b546f" },
  },
  // a retry has another delivery id
  retry: {
    body: JSON.stringify(event),
    headers: { "box-delivery-id": "f96bb54b-ee16-4fc5-aa65-8c2d9e5b546e" },
  },
  otherEvent: { body: JSON.stringify({ ...event, id: "eb0c4e06-751f-442c-86f8-fd5bb404dbed" }) },
  stored: [{ messageId: event.id, topic: "FILE.UPLOADED" }],
  examples: ["SamplePrimaryKey", "SampleSecondaryKey"].map((secret) => ({
    title: `box-node-sdk, ${secret}`,
    secret,
    at: new Date("2020-01-01T07:00:00Z"),
    body: '{"type":"webhook_event","webhook":{"id":"1234567890"},"trigger":"FILE.UPLOADED","source":{"id":"1234567890","type":"file","name":"Test.txt"}}',
    headers: {
      "box-delivery-timestamp": "2020-01-01T00:00:00-07:00",
      "box-signature-primary": "6TfeAW3A1PASkgboxxA5yqHNKOwFyMWuEXny/FPD5hI=",
      "box-signature-secondary": "v+1CD1Jdo3muIcbpv5lxxgPglOqMfsNHPV899xWYydo=",
    },
    stored: { topic: "FILE.UPLOADED" },
  })),
});
