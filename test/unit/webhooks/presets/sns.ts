import { expect, it } from "vitest";
import { sns } from "../../../../src/webhooks/presets/sns.js";
import { describePreset } from "../../../support/presets/describe-preset.js";
import { openPresetRoutes } from "../../../support/presets/preset-route.js";
import type { PresetSample } from "../../../support/presets/preset-sample.js";
import { rsaCertificate, rsaPrivateKey, rsaSignature } from "../../../support/presets/rsa-key.js";

type Message = Readonly<Record<string, string>>;

const topic = "arn:aws:sns:us-west-2:123456789012:MyTopic";
const notification = {
  Type: "Notification",
  MessageId: "22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324",
  TopicArn: topic,
  Subject: "My First Message",
  Message: "Hello world!",
  Timestamp: "2012-05-02T00:54:06.655Z",
};
const certificate = "https://sns.us-west-2.amazonaws.com/SimpleNotificationService-f3ecfb7224c7233f.pem";

/** As the documentation writes it: the keys that the message has, sorted, each followed by its value. */
function signed(message: Message, version = "1", url = certificate): string {
  const keys = ["Message", "MessageId", "Subject", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"];
  const text = keys.map((key) => (key in message ? `${key}\n${message[key]}\n` : "")).join("");
  const Signature = rsaSignature(text, version === "1" ? "sha1" : "sha256");
  return JSON.stringify({ ...message, SignatureVersion: version, Signature, SigningCertURL: url });
}

const fetched: string[] = [];
const sample: PresetSample = {
  secret: topic,
  otherSecret: "arn:aws:sns:us-west-2:123456789012:TopicOfSomebodyElse",
  sign: ({ body }) => ({ body: signed(JSON.parse(body) as Message) }),
  event: { body: JSON.stringify(notification), headers: { "content-type": "text/plain; charset=UTF-8" } },
  otherEvent: {
    body: JSON.stringify({ ...notification, MessageId: "22b80b92-fdea-4c2c-8f9d-bdfb0c7bf325" }),
  },
  stored: [{ messageId: notification.MessageId, topic: "Notification" }],
  tamper: (sent) => ({ ...sent, body: sent.body.replace("Hello", "Goodbye") }),
  route: {
    async fetchText(url) {
      fetched.push(url);
      return rsaCertificate;
    },
  },
  handshakes: [
    {
      title: "subscription confirmation",
      body: JSON.stringify({
        Type: "SubscriptionConfirmation",
        MessageId: "165545c9-2a5c-472c-8df2-7ff2be2b3b1b",
        Token: "2336412f37",
        TopicArn: topic,
        Message: "You have chosen to subscribe",
        SubscribeURL: "https://sns.us-west-2.amazonaws.com/?Action=ConfirmSubscription&Token=2336412f37",
        Timestamp: "2012-04-26T20:45:04.751Z",
      }),
      signed: true,
      answer: {},
    },
  ],
  ours: { privateKey: rsaPrivateKey },
};

describePreset("sns", sns, sample);

it("FUN-02 SNS: the subscription was confirmed at SNS", () => {
  expect(fetched).toContain(
    "https://sns.us-west-2.amazonaws.com/?Action=ConfirmSubscription&Token=2336412f37",
  );
});

const { Subject: _, ...withoutSubject } = notification;

it.each([
  ["signature version 2", signed(notification, "2"), 200],
  ["no subject", signed(withoutSubject), 200],
  ["a subject that was added", signed(withoutSubject).replace('{"', '{"Subject":"Act now","'), 401],
  [
    "a certificate of another host",
    signed(notification, "1", "https://sns.us-west-2.example.com/a.pem"),
    401,
  ],
  [
    "an unknown version",
    signed(notification, "2").replace('"SignatureVersion":"2"', '"SignatureVersion":"3"'),
    401,
  ],
])("FUN-02 SNS: %s", async (_what, body, status) => {
  const routes = await openPresetRoutes("sns-more", sns, sample);
  expect((await routes.open().send({ body })).status).toBe(status);
  await routes.close();
});
