import { awsAttributes, awsMessageSize, fifoFields, requireBody } from "./aws-attributes.js";
import { type BatchResponse, batchOutcomes } from "./aws-batch-outcomes.js";
import { eachAlone } from "./each-alone.js";
import { microBatch } from "./micro-batch.js";
import { publishTo } from "./publish-to.js";
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
  readonly sendBatch: (entries: readonly AwsBatchEntry[], signal: AbortSignal) => Promise<BatchResponse>;
}

/** What SQS and SNS have in common: ten messages per request, attributes, FIFO groups, an outcome for each entry. */
export function awsBatchPublisher(settings: AwsBatchPublisherOptions): Publisher {
  const { destination, options, isFifo, maxMessageBytes, sendBatch } = settings;
  const sendAll = async (messages: readonly PublishedMessage[], signal: AbortSignal) => {
    const entries = messages.map((message, index) => ({
      payload: message.payload,
      fields: {
        Id: String(index),
        MessageAttributes: awsAttributes(message),
        ...fifoFields(isFifo, message),
      },
    }));
    return batchOutcomes(messages.length, await sendBatch(entries, signal), destination);
  };
  const send = microBatch<PublishedMessage>({
    maxItems: 10,
    maxBytes: 262_144,
    bytesOf: awsMessageSize,
    send: (messages, signal) => eachAlone(messages, isContentFault, (some) => sendAll(some, signal)),
  });
  return publishTo(destination, options, async (message, { signal }) => {
    requireBody(message, maxMessageBytes, destination);
    await send(message, signal);
  });
}

/** AWS refused the request for what its messages hold, not for what the queue or topic is. */
const isContentFault = (error: unknown): boolean =>
  /^(BatchRequestTooLong|InvalidMessageContents)(Exception)?$/.test((error as Error | undefined)?.name ?? "");
