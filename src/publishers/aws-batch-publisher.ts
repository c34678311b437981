import { awsAttributes, fifoFields, requireBody } from "./aws-attributes.js";
import { type BatchResponse, batchOutcomes } from "./aws-batch-outcomes.js";
import { guarded } from "./guarded.js";
import { messageSize } from "./message-size.js";
import { microBatch } from "./micro-batch.js";
import type { PublishedMessage, Publisher, PublisherOptions } from "./publisher.js";

export interface AwsBatchEntry {
  readonly payload: string;
  readonly fields: {
    readonly Id: string;
    readonly MessageAttributes: ReturnType<typeof awsAttributes>;
    readonly MessageGroupId?: string;
    readonly MessageDeduplicationId?: string;
  };
}

export interface AwsBatchPublisherOptions {
  /** The destination's name in errors. */
  readonly destination: string;
  readonly options: PublisherOptions;
  readonly isFifo: boolean;
  /** The limit for payload and attributes of one message. */
  readonly maxMessageBytes: number;
  readonly sendBatch: (entries: readonly AwsBatchEntry[]) => Promise<BatchResponse>;
}

/** What SQS and SNS have in common: ten messages per request, attributes, FIFO groups, an outcome for each entry. */
export function awsBatchPublisher(settings: AwsBatchPublisherOptions): Publisher {
  const { destination, options, isFifo, maxMessageBytes, sendBatch } = settings;
  const send = microBatch<PublishedMessage>({
    maxItems: 10,
    maxBytes: 262_144,
    bytesOf: messageSize,
    async send(messages) {
      const entries = messages.map((message, index) => ({
        payload: message.payload,
        fields: {
          Id: String(index),
          MessageAttributes: awsAttributes(message),
          ...fifoFields(isFifo, message),
        },
      }));
      return batchOutcomes(messages.length, await sendBatch(entries), destination);
    },
  });
  return guarded(destination, options, async (message) => {
    requireBody(message, maxMessageBytes, destination);
    await send(message);
  });
}
