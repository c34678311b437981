import type { SQSClient } from "@aws-sdk/client-sqs";
import { memoisePromise } from "../base/memoise-promise.js";
import { refuseUnknown, requireName } from "../queue/arguments.js";
import { awsAttributes, fifoFields, requireBody } from "./aws-attributes.js";
import { batchOutcomes } from "./aws-batch-outcomes.js";
import { guarded, publisherOptionNames } from "./guarded.js";
import { loadPackage } from "./load-package.js";
import { messageSize } from "./message-size.js";
import { microBatch } from "./micro-batch.js";
import type { PublishedMessage, Publisher, PublisherOptions } from "./publisher.js";

export interface SqsPublisherOptions extends PublisherOptions {
  readonly queueUrl: string;
  /** Your own client; one with the environment's region and credentials by default. */
  readonly client?: SQSClient;
}

/** SQS's limit for payload and attributes together. A whole batch has the same limit. */
const maxMessageBytes = 1_048_576;

/**
 * Sends to an SQS queue, ten messages per request. On a FIFO queue the partition key is the group and the message id the
 * deduplication id.
 *
 * @example
 * createDispatcher({ handlers: { "order.placed": sqsPublisher({ queueUrl }) } })
 */
export function sqsPublisher(options: SqsPublisherOptions): Publisher {
  refuseUnknown(options, ["queueUrl", "client", ...publisherOptionNames], "sqsPublisher");
  const { queueUrl } = options;
  requireName(queueUrl, "sqsPublisher: queueUrl");
  const isFifo = queueUrl.endsWith(".fifo");
  const sdk = memoisePromise(async () => {
    const { SendMessageBatchCommand, SQSClient } = await loadPackage(
      "@aws-sdk/client-sqs",
      () => import("@aws-sdk/client-sqs"),
    );
    return { SendMessageBatchCommand, client: options.client ?? new SQSClient({}) };
  });
  const send = microBatch<PublishedMessage>({
    maxItems: 10,
    maxBytes: 262_144,
    bytesOf: messageSize,
    async send(messages) {
      const { SendMessageBatchCommand, client } = await sdk();
      const entries = messages.map((message, index) => ({
        Id: String(index),
        MessageBody: message.payload,
        MessageAttributes: awsAttributes(message),
        ...fifoFields(isFifo, message),
      }));
      const response = await client.send(
        new SendMessageBatchCommand({ QueueUrl: queueUrl, Entries: entries }),
      );
      return batchOutcomes(messages.length, response, "The SQS queue");
    },
  });
  return guarded("The SQS queue", options, async (message) => {
    requireBody(message, maxMessageBytes, "The SQS queue");
    await send(message);
  });
}
