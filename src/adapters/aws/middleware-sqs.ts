import type { Context, SQSBatchResponse, SQSEvent, SQSRecord } from "aws-lambda";
import { InvalidArgumentError } from "../../errors.js";
import { type ConsumeOptions, createConsume } from "../../middleware/consume.js";
import { consumeBatch } from "../../middleware/consume-batch.js";
import { attributeNames, headersFrom, type TriggerMessage } from "../../middleware/trigger-message.js";
import { optionalCount } from "../../queue/arguments.js";

export interface SqsHandlerOptions extends ConsumeOptions {
  /** Of messages that bring none: "sqs" by default. */
  readonly topic?: string;
  /** Messages, or FIFO groups, at once: 4 by default, as many as the pool has connections. */
  readonly concurrency?: number;
  /** With less time left, what was not started goes back to the queue: 1 s by default. */
  readonly reserveMs?: number;
}

/**
 * A Lambda handler for a queue with `ReportBatchItemFailures`: each message in a transaction of its own, and only those
 * that failed are delivered again. Of a FIFO group, nothing is handled after one that failed.
 *
 * @example
 * export const handler = sqsHandler({ handle: compose([transaction(db), inbox({ subscriber: "orders" }), outbox()], placeOrder) });
 */
export function sqsHandler(
  options: SqsHandlerOptions,
): (event: SQSEvent, context?: Pick<Context, "getRemainingTimeInMillis">) => Promise<SQSBatchResponse> {
  const consume = createConsume(options, "sqsHandler", ["topic", "concurrency", "reserveMs"]);
  const { topic = "sqs", concurrency = 4, reserveMs = 1_000 } = options;
  optionalCount(concurrency, "sqsHandler: concurrency", 1);
  optionalCount(reserveMs, "sqsHandler: reserveMs", 0);
  return async (event, context) => {
    if (!Array.isArray(event?.Records))
      throw new InvalidArgumentError("sqsHandler takes events of an SQS trigger.");
    const entries = event.Records.map((record) => ({
      message: sqsMessage(record, topic),
      receipt: record.messageId,
    }));
    const remainingMs = () => context?.getRemainingTimeInMillis() ?? Number.POSITIVE_INFINITY;
    const failed = await consumeBatch(entries, consume, { concurrency, remainingMs, reserveMs });
    return { batchItemFailures: failed.map((itemIdentifier) => ({ itemIdentifier })) };
  };
}

const isFifo = ({ eventSourceARN }: SQSRecord): boolean => eventSourceARN?.endsWith(".fifo") ?? true;

/** A record as the handler gets it. */
export function sqsMessage(record: SQSRecord, topic = "sqs"): TriggerMessage {
  const sent = record.messageAttributes ?? {};
  const text = (name: string): string | undefined => sent[name]?.stringValue;
  return {
    messageId: text(attributeNames.messageId) ?? record.messageId,
    topic: text(attributeNames.topic) ?? topic,
    payload: record.body,
    headers: headersFrom(text(attributeNames.headers)),
    correlationId: text(attributeNames.correlationId) ?? null,
    // groups of other queues are there to be fair, not to be in order
    partitionKey: isFifo(record) ? (record.attributes?.MessageGroupId ?? null) : null,
    deliveries: Number(record.attributes?.ApproximateReceiveCount ?? 1),
  };
}
