import type { SNSClient } from "@aws-sdk/client-sns";
import { memoisePromise } from "../base/memoise-promise.js";
import { refuseUnknown, requireName } from "../queue/arguments.js";
import { awsAttributes, fifoFields, requireBody } from "./aws-attributes.js";
import { batchOutcomes } from "./aws-batch-outcomes.js";
import { guarded, publisherOptionNames } from "./guarded.js";
import { loadPackage } from "./load-package.js";
import { messageSize } from "./message-size.js";
import { microBatch } from "./micro-batch.js";
import type { PublishedMessage, Publisher, PublisherOptions } from "./publisher.js";

export interface SnsPublisherOptions extends PublisherOptions {
  readonly topicArn: string;
  /** Your own client; one with the environment's region and credentials by default. */
  readonly client?: SNSClient;
}

/** SNS's limit for payload and attributes together. */
const maxMessageBytes = 262_144;

/**
 * Publishes to an SNS topic, ten messages per request.
 *
 * @example
 * createDispatcher({ handlers: { "order.placed": snsPublisher({ topicArn }) } })
 */
export function snsPublisher(options: SnsPublisherOptions): Publisher {
  refuseUnknown(options, ["topicArn", "client", ...publisherOptionNames], "snsPublisher");
  const { topicArn } = options;
  requireName(topicArn, "snsPublisher: topicArn");
  const isFifo = topicArn.endsWith(".fifo");
  const sdk = memoisePromise(async () => {
    const { PublishBatchCommand, SNSClient } = await loadPackage(
      "@aws-sdk/client-sns",
      () => import("@aws-sdk/client-sns"),
    );
    return { PublishBatchCommand, client: options.client ?? new SNSClient({}) };
  });
  const send = microBatch<PublishedMessage>({
    maxItems: 10,
    maxBytes: 262_144,
    bytesOf: messageSize,
    async send(messages) {
      const { PublishBatchCommand, client } = await sdk();
      const entries = messages.map((message, index) => ({
        Id: String(index),
        Message: message.payload,
        MessageAttributes: awsAttributes(message),
        ...fifoFields(isFifo, message),
      }));
      const command = new PublishBatchCommand({ TopicArn: topicArn, PublishBatchRequestEntries: entries });
      return batchOutcomes(messages.length, await client.send(command), "The SNS topic");
    },
  });
  return guarded("The SNS topic", options, async (message) => {
    requireBody(message, maxMessageBytes, "The SNS topic");
    await send(message);
  });
}
