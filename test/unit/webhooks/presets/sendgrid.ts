import { generateKeyPairSync, sign as signBytes } from "node:crypto";
import { sendgrid } from "../../../../src/webhooks/presets/sendgrid.js";
import { describePreset } from "../../../support/presets/describe-preset.js";
import { seconds } from "../../../support/presets/hmac.js";
import type { ProviderEvent } from "../../../support/presets/preset-sample.js";

const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "prime256v1" });
const other = generateKeyPairSync("ec", { namedCurve: "prime256v1" });
const inBase64 = (key: typeof publicKey) => key.export({ format: "der", type: "spki" }).toString("base64");

const batch = (...ids: readonly string[]): ProviderEvent => ({
  body: `${JSON.stringify(ids.map((id) => ({ sg_event_id: id, event: "delivered", email: "a@example.com" })))}\r\n`,
});
const stored = (messageId: string) => ({ messageId, topic: "delivered" });

describePreset("sendgrid", sendgrid, {
  secret: inBase64(publicKey),
  signingSecret: privateKey.export({ format: "pem", type: "pkcs8" }).toString(),
  otherSecret: inBase64(other.publicKey),
  sign: ({ body }, { at, secret }) => ({
    headers: {
      "x-twilio-email-event-webhook-timestamp": seconds(at),
      "x-twilio-email-event-webhook-signature": signBytes(
        "sha256",
        Buffer.from(seconds(at) + body),
        secret,
      ).toString("base64"),
    },
  }),
  event: batch("e1", "e2"),
  otherEvent: batch("e4"),
  stored: ["e1", "e2"].map(stored),
  cutAgain: { batches: [batch("e2"), batch("e1", "e3")], stored: ["e1", "e2", "e3"].map(stored) },
  // of the tests of SendGrid's own library
  examples: [
    {
      title: "sendgrid-nodejs, one event",
      at: new Date(1600112502_000),
      secret:
        "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE83T4O/n84iotIvIW4mdBgQ/7dAfSmpqIM8kF9mN1flpVKS3GRqe62gw+2fNNRaINXvVpiglSI8eNEc6wEA3F+g==",
      headers: {
        "x-twilio-email-event-webhook-timestamp": "1600112502",
        "x-twilio-email-event-webhook-signature":
          "MEUCIGHQVtGj+Y3LkG9fLcxf3qfI10QysgDWmMOVmxG0u6ZUAiEAyBiXDWzM+uOe5W0JuG+luQAbPIqHh89M15TluLtEZtM=",
      },
      body: `${JSON.stringify([
        {
          email: "hello@world.com",
          event: "dropped",
          reason: "Bounced Address",
          sg_event_id: "ZHJvcC0xMDk5NDkxOS1MUnpYbF9OSFN0T0doUTRrb2ZTbV9BLTA",
          sg_message_id: "LRzXl_NHStOGhQ4kofSm_A.filterdrecv-p3mdw1-756b745b58-kmzbl-18-5F5FC76C-9.0",
          "smtp-id": "<LRzXl_NHStOGhQ4kofSm_A@ismtpd0039p1iad1.sendgrid.net>",
          timestamp: 1600112492,
        },
      ])}\r\n`,
      stored: { messageId: "ZHJvcC0xMDk5NDkxOS1MUnpYbF9OSFN0T0doUTRrb2ZTbV9BLTA", topic: "dropped" },
    },
  ],
});
