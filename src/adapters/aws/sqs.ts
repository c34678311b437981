import type { Context, SQSBatchResponse, SQSEvent, SQSRecord } from "aws-lambda";
import { type Budget, timeBudget } from "../../base/async.js";
import { InvalidArgumentError } from "../../errors.js";
import {
  attributeNames,
  type ConsumeOptions,
  consumeBatch,
  createConsume,
  headersFrom,
  type TriggerMessage,
  triggerMessage,
} from "../../middleware/consume.js";
import { optionalCount } from "../../queue/arguments.js";
import { lambdaBudget } from "./events.js";

/** Options of a Lambda function that consumes a queue of SQS. */
export interface SqsHandlerOptions extends ConsumeOptions {
  /** The topic of messages without one: "sqs" by default. */
  readonly topic?: string;
  /** Messages, or FIFO groups, that are handled at once: 4 by default, as many as the pool has connections. */
  readonly concurrency?: number;
  /** With less time left, messages that are not started go back to the queue: 1 s by default. */
  readonly reserveMs?: number;
}

/**
 * A Lambda handler for a queue with `ReportBatchItemFailures`. Each message has a transaction of its own, and only failed
 * messages are delivered again. After a failure, no later message of its FIFO group is handled.
 *
 * @example
 * export const handler = sqsHandler({ handle: compose([transaction(db), inbox({ subscriber: "orders" }), outbox()], placeOrder) });
 */
export function sqsHandler(
  options: SqsHandlerOptions,
): (event: SQSEvent, context?: Pick<Context, "getRemainingTimeInMillis">) => Promise<SQSBatchResponse> {
  const consume = sqsConsumer(options);
  return (event, context) =>
    consume(event, context === undefined ? timeBudget(Number.POSITIVE_INFINITY) : lambdaBudget(context));
}

/** As `sqsHandler`, for a caller that has a budget already. */
export function sqsConsumer(
  options: SqsHandlerOptions,
): (event: SQSEvent, budget: Budget) => Promise<SQSBatchResponse> {
  const consume = createConsume(options, "sqsHandler", ["topic", "concurrency", "reserveMs"]);
  const { topic = "sqs", concurrency = 4, reserveMs = 1_000 } = options;
  optionalCount(concurrency, "sqsHandler: concurrency", 1);
  optionalCount(reserveMs, "sqsHandler: reserveMs", 0);
  return async (event, budget) => {
    if (!Array.isArray(event?.Records))
      throw new InvalidArgumentError(
        "sqsHandler: the event has no Records. It takes events of an SQS trigger.",
      );
    const entries = event.Records.map((record) => ({
      message: sqsMessage(record, topic),
      receipt: record.messageId,
    }));
    const failed = await consumeBatch(entries, consume, { concurrency, budget, reserveMs });
    return { batchItemFailures: failed.map((itemIdentifier) => ({ itemIdentifier })) };
  };
}

const isFifo = ({ eventSourceARN }: SQSRecord): boolean => eventSourceARN?.endsWith(".fifo") ?? true;

/** An SQS record as a handler gets it. */
export function sqsMessage(record: SQSRecord, topic = "sqs"): TriggerMessage {
  const sent = record.messageAttributes ?? {};
  const text = (name: string): string | undefined => sent[name]?.stringValue;
  return triggerMessage({
    messageId: text(attributeNames.messageId) ?? record.messageId,
    topic: text(attributeNames.topic) ?? topic,
    type: text(attributeNames.type),
    payload: record.body,
    headers: headersFrom(text(attributeNames.headers)),
    correlationId: text(attributeNames.correlationId) ?? null,
    // On a standard queue a group makes deliveries fair. It does not order them.
    partitionKey: isFifo(record) ? (record.attributes?.MessageGroupId ?? null) : null,
    deliveries: Number(record.attributes?.ApproximateReceiveCount ?? 1),
  });
}
