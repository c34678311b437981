import { createHash } from "node:crypto";
import type { Budget } from "../base/async.js";
import { mapLimit } from "../base/async.js";
import { type LoggerOption, loggedError, loggerOf } from "../base/logger.js";
import { isHopeless, storedReason } from "../dispatch/settlement.js";
import { InvalidArgumentError } from "../errors.js";
import type { Inbox } from "../inbox/inbox.js";
import {
  maxNameLength,
  optionalCount,
  optionalHeaders,
  optionalName,
  problemOf,
  refuseUnknown,
  requireName,
  requirePayload,
} from "../queue/arguments.js";
import { attributeHeaders } from "../queue/attributes.js";
import { MessageBase } from "../queue/message.js";

/** A message of a queue trigger, the same for every cloud. */
export interface TriggerMessage {
  /** Duplicates have the same one: the sender's id if it sent one, otherwise the queue's id. */
  readonly messageId: string;
  readonly topic: string;
  /** What kind of event it tells of: what the sender said, otherwise the topic. */
  readonly type: string;
  readonly payload: string;
  /**
   * The payload, parsed as JSON when it is first read. A payload that is not JSON is a permanent failure. A copy (`{ ...message }`)
   * does not have it.
   */
  readonly data: unknown;
  readonly headers: Readonly<Record<string, string>> | null;
  readonly correlationId: string | null;
  /** FIFO group or session. Messages with the same one are handled in order. */
  readonly partitionKey: string | null;
  /** How often the queue has delivered it, including this time. */
  readonly deliveries: number;
}

/** A message whose `data` is parsed when it is first read. */
export const triggerMessage = (
  fields: Omit<TriggerMessage, "data" | "type"> & { readonly type?: string | undefined },
): TriggerMessage => Object.assign(new MessageBase(), fields, { type: fields.type ?? fields.topic });

/** Options of a function that consumes a queue. */
export interface ConsumeOptions {
  /** A composed handler, or any function that handles one message and throws when it fails. */
  readonly handle: (message: TriggerMessage) => unknown;
  /** The inbox that poison messages are written to, with their error. There they are listed, replayed and purged. */
  readonly deadLetters?: Inbox;
  /** The `source` of dead letters. Usually the subscriber of the inbox middleware. */
  readonly subscriber?: string;
  /** A message that fails at this delivery is dead: 5 by default. Keep it below the limit of the queue itself. */
  readonly maxDeliveries?: number;
  readonly logger?: LoggerOption;
}

/** A `failed` message is delivered again by the queue. The others are acknowledged. */
type Consumed = "handled" | "dead" | "failed";

export type Consume = (
  message: TriggerMessage,
) => Promise<{ readonly end: Consumed; readonly error?: unknown }>;

const consumeOptionNames = ["handle", "deadLetters", "subscriber", "maxDeliveries", "logger"];

const defaultMaxDeliveries = 5;

/**
 * Handles one message of a queue trigger and writes a poison message to the dead letters. It never rejects: when the
 * dead letter cannot be written, the message has failed.
 */
export function createConsume(options: ConsumeOptions, what: string, more: readonly string[] = []): Consume {
  refuseUnknown(options ?? {}, [...consumeOptionNames, ...more], what);
  const { handle, deadLetters, subscriber, maxDeliveries = defaultMaxDeliveries } = options;
  if (typeof handle !== "function")
    throw new InvalidArgumentError(`${what}: handle must be a function, such as a composed handler.`);
  optionalCount(maxDeliveries, `${what}: maxDeliveries`, 1);
  if (deadLetters !== undefined) requireName(subscriber, `${what}: subscriber, the source of dead letters,`);
  const logger = loggerOf(options.logger);

  const isPoison = (message: TriggerMessage, error: unknown): boolean =>
    isHopeless(error) || message.deliveries >= maxDeliveries;

  return async (message) => {
    try {
      await handle(message);
      return { end: "handled" };
    } catch (error) {
      const reason = storedReason(error, message.payload);
      // Without the topic, which is an attribute that any sender may set to anything.
      const { messageId, deliveries } = message;
      const fields = { messageId, deliveries, ...loggedError(error) };
      if (deadLetters === undefined || !isPoison(message, error)) {
        logger.warn("message failed", fields);
        return { end: "failed", error };
      }
      try {
        // It is marked first and its content stored second, so that no worker can claim it in between. A function that is
        // killed in between has not acknowledged the message, and the redelivery stores the content.
        const letter = { source: subscriber!, ...storableMessage(message) };
        await deadLetters.markDead({ source: letter.source, messageId: letter.messageId }, reason);
        await deadLetters.receive(letter);
      } catch (failure) {
        logger.error("dead letter not written", { ...fields, cause: (failure as { code?: string }).code });
        return { end: "failed", error: failure };
      }
      logger.error("message is dead", fields);
      return { end: "dead" };
    }
  };
}

export interface BatchEntry {
  readonly message: TriggerMessage;
  /** How the platform names a message that failed. */
  readonly receipt: string;
}

export interface BatchOptions {
  /** How many messages, or partitions, are handled at once. */
  readonly concurrency: number;
  /** The function's time. A message that is not started in time is reported like a failed one. */
  readonly budget: Budget;
  /** With less time than this left, no message is started. */
  readonly reserveMs: number;
}

/**
 * Handles a batch. Returns the receipts of the messages that the queue must deliver again, in the order of the batch.
 * Messages with the same partition key are handled in order, and none of them after one that failed.
 */
export async function consumeBatch(
  entries: readonly BatchEntry[],
  consume: Consume,
  { concurrency, budget, reserveMs }: BatchOptions,
): Promise<readonly string[]> {
  const failed = new Set<BatchEntry>();
  const consumePartition = async (partition: readonly BatchEntry[]): Promise<void> => {
    for (const [index, entry] of partition.entries()) {
      const isLate = budget.signal.aborted || budget.remainingMs() < reserveMs;
      if (isLate || (await consume(entry.message)).end === "failed") {
        for (const unhandled of partition.slice(index)) failed.add(unhandled);
        return;
      }
    }
  };
  await mapLimit(byPartition(entries), concurrency, consumePartition);
  return entries.filter((entry) => failed.has(entry)).map((entry) => entry.receipt);
}

/** A message without a partition key is a partition of its own. */
function byPartition(entries: readonly BatchEntry[]): BatchEntry[][] {
  const partitions = new Map<unknown, BatchEntry[]>();
  for (const entry of entries) {
    const key = entry.message.partitionKey ?? entry;
    const partition = partitions.get(key);
    if (partition === undefined) partitions.set(key, [entry]);
    else partition.push(entry);
  }
  return [...partitions.values()];
}

/**
 * The message in a form that every database stores. An id that cannot be stored becomes its hash, so that a redelivery
 * has the same one. In other texts, what cannot be stored becomes U+FFFD. The headers then have the originals as JSON,
 * in which NUL and lone surrogates are escaped: `oncebox-original-message-id`, `-topic`, `-correlation-id`, `-payload`,
 * `-headers`.
 */
function storableMessage(message: TriggerMessage) {
  const { messageId, topic, type, payload, headers, correlationId } = message;
  const originals: Record<string, string> = {};
  const stored = <Value>(field: string, value: Value, check: () => unknown, replace: () => Value): Value => {
    if (problemOf(() => void check()).length === 0) return value;
    originals[`oncebox-original-${field}`] = JSON.stringify(value) ?? "";
    return replace();
  };
  const fields = {
    messageId: stored(
      "message-id",
      messageId,
      () => requireName(messageId, "messageId"),
      () =>
        // without an id, equal messages are one dead letter
        hashOf(messageId === "" ? [topic, payload] : messageId),
    ),
    topic: stored(
      "topic",
      topic,
      () => requireName(topic, "topic"),
      () => replaced(topic),
    ),
    type:
      type === topic
        ? null
        : stored(
            "type",
            type,
            () => requireName(type, "type"),
            () => replaced(type),
          ),
    correlationId: stored(
      "correlation-id",
      correlationId,
      () => optionalName(correlationId, "correlationId"),
      () => replaced(correlationId),
    ),
    payload: stored(
      "payload",
      payload,
      () => requirePayload(payload),
      () => payload.toWellFormed(),
    ),
    // an envelope of a Storage queue may have any JSON
    headers: stored(
      "headers",
      headers,
      () => optionalHeaders(headers),
      () => null,
    ),
  };
  return Object.keys(originals).length === 0
    ? fields
    : { ...fields, headers: { ...fields.headers, ...originals } };
}

/** Of the JSON text: two ids that differ in a lone surrogate would be the same bytes in UTF-8. */
const hashOf = (value: unknown): string => createHash("sha256").update(JSON.stringify(value)).digest("hex");

/** As much of the text as a name may have. It never equals a name that was storable before. */
function replaced(value: unknown): string {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  const cut = text.replaceAll("\0", "\uFFFD").slice(0, maxNameLength - 1);
  return `${cut.toWellFormed().trimEnd()}\uFFFD`;
}

/** The names under which the publishers of this package send a message's fields other than its payload. */
export const attributeNames = {
  messageId: "messageId",
  topic: "topic",
  type: "type",
  correlationId: "correlationId",
  headers: "headers",
} as const;

/** Headers that a publisher of this package wrote as JSON, with the types of their attributes. Null for anything else. */
export function headersFrom(text: string | undefined): Record<string, string> | null {
  if (text === undefined) return null;
  try {
    const parsed: unknown = JSON.parse(text);
    const isPlain = typeof parsed === "object" && parsed !== null && !Array.isArray(parsed);
    return isPlain ? attributeHeaders(parsed as Record<string, unknown>) : null;
  } catch {
    return null;
  }
}
