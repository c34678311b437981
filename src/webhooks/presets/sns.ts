import type { Handshake, WebhookScheme } from "../schemes/scheme.js";
import type { PresetAbout } from "./about.js";

const beginning = "Message\n{json:Message}\nMessageId\n{json:MessageId}\n";
const end = "TopicArn\n{json:TopicArn}\nType\n{json:Type}\n";
const hosts = [
  "sns.*-*-*.amazonaws.com",
  "sns.us-gov-*-*.amazonaws.com",
  "sns.cn-*-*.amazonaws.com.cn",
] as const;

/** Confirmed by a request to SNS, for the source's own topics only: the signature and the topic are verified first. */
const confirmation = {
  method: "POST",
  when: { "{json:Type}": "SubscriptionConfirmation" },
  answer: { confirm: "{json:SubscribeURL}" },
} as const satisfies Handshake;

export const sns = {
  verify: {
    kind: "signature",
    signatureIn: "{json:Signature}",
    encoding: "base64",
    algorithmBy: { value: "{json:SignatureVersion}", is: { "1": "rsa-sha1", "2": "rsa-sha256" } },
    signed: [
      // a confirmation of a subscription, a notification with a subject, and one without
      `${beginning}SubscribeURL\n{json:SubscribeURL}\nTimestamp\n{json:Timestamp}\nToken\n{json:Token}\n${end}`,
      `${beginning}Subject\n{json:Subject}\nTimestamp\n{json:Timestamp}\n${end}`,
      `${beginning}Timestamp\n{json:Timestamp}\n${end}`,
    ],
    signsPart: true,
    certificate: { url: "{json:SigningCertURL}", hosts },
    // one key signs for all topics of all accounts
    sender: "{json:TopicArn}",
  },
  messageId: "{json:MessageId}",
  topic: "{json:Type}",
  keepHeaders: ["x-amz-sns-message-type", "x-amz-sns-topic-arn"],
  handshakes: [confirmation],
} as const satisfies WebhookScheme;

export const about = {
  name: "Amazon SNS",
  batches: false,
  retries:
    "3 retries, 20 s apart. The subscription's delivery policy may ask for more, within an hour. Then the message is lost, unless the subscription has a dead-letter queue.",
  answerWithin: "15 s",
  secret:
    "The ARNs of the topics that you subscribed to. They are not secret. SNS signs with a key of its own.",
  signs:
    "Message, id, subject, time, topic and type. Not MessageAttributes. Raw message delivery is not signed: leave it off.",
  idIsUnique: "MessageId is unique for each message, and the same in each retry.",
  checked: {
    title:
      "Verifying the signatures of Amazon SNS messages; Amazon SNS message delivery retries; aws-js-sns-message-validator",
    date: "2026-11",
    with: "documentation",
    byHand: "aws-js-sns-message-validator",
    delivery: { page: "Amazon SNS message delivery retries", date: "2026-11", notSeen: "the 15 s" },
  },
} as const satisfies PresetAbout;
