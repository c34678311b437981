import type { Handshake, WebhookScheme } from "../schemes/scheme.js";

const beginning = "Message\n{json:Message}\nMessageId\n{json:MessageId}\n";
const end = "TopicArn\n{json:TopicArn}\nType\n{json:Type}\n";
/** Of the partitions aws, aws-us-gov and aws-cn. The region is that of the topic. */
const hosts = [
  { sender: "arn:aws:sns:{region}:*", host: "sns.{region}.amazonaws.com" },
  { sender: "arn:aws-us-gov:sns:{region}:*", host: "sns.{region}.amazonaws.com" },
  { sender: "arn:aws-cn:sns:{region}:*", host: "sns.{region}.amazonaws.com.cn" },
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
    certificate: { url: "{json:SigningCertURL}", hosts, path: "/SimpleNotificationService-*.pem" },
    // one key signs for all topics of all accounts
    sender: "{json:TopicArn}",
  },
  messageId: "{json:MessageId}",
  topic: "{json:Type}",
  keepHeaders: ["x-amz-sns-message-type", "x-amz-sns-topic-arn"],
  handshakes: [confirmation],
} as const satisfies WebhookScheme;
