import { longestErrorText } from "../base/redaction.js";
import { type Tracing, withContextHeaders } from "../base/telemetry.js";
import { isGuid } from "../base/uuid.js";
import { InvalidArgumentError } from "../errors.js";
import {
  optionalDate,
  optionalHeaders,
  optionalKey,
  optionalName,
  requireName,
  requirePayload,
} from "../queue/arguments.js";
import type { MessageContent } from "../queue/message.js";
import { errorGroupOf, type InboxKey, type OutboxKey } from "../queue/message.js";
import type { ReceivingDialect } from "./dialect.js";
import type { SqlParams, SqlRow, SqlValue } from "./driver.js";

/** The message with the current trace context in its headers, unless it has one. */
export const withTrace = <Message extends MessageContent>(
  message: Message,
  tracing: Tracing | undefined,
): Message =>
  tracing === undefined || Object(message) !== message // not a message: its check says so
    ? message
    : { ...message, headers: withContextHeaders(tracing, optionalHeaders(message.headers)) };

/** Checks it and adds it to the parameters of a key. */
export function withContent(
  params: Record<string, SqlValue>,
  message: MessageContent,
  dialect: Pick<ReceivingDialect, "toTime">,
): SqlParams {
  requirePayload(message.payload);
  const time = (date: Date | null) => (date === null ? null : dialect.toTime(date));
  const headers = optionalHeaders(message.headers);
  const partitionKey = optionalKey(message.partitionKey, "partitionKey");
  const type = optionalKey(message.type, "type");
  params.topic = message.topic;
  params.type = type === message.topic ? null : type; // nearly always the topic, and then not stored twice
  params.payload = toStoredText(message.payload);
  params.correlation_id = optionalName(message.correlationId, "correlationId");
  params.headers = headers === null ? null : toStoredText(JSON.stringify(headers));
  params.due_at = time(optionalDate(message.dueAt, "dueAt"));
  params.expires_at = time(optionalDate(message.expiresAt, "expiresAt"));
  if (partitionKey !== null) params.partition_key = partitionKey; // absent for nearly every message, and then not sent
  return params;
}

/**
 * Text may hold NUL, which PostgreSQL cannot store and at which some SQLite bindings cut. Such a text, and one that
 * begins with our mark, is stored as the mark and base64. All others are stored as they are.
 */
const base64Mark = "\u0001base64:";

export function toStoredText(value: string): string {
  if (!value.includes("\0") && !value.startsWith(base64Mark)) return value;
  return base64Mark + Buffer.from(value, "utf8").toString("base64");
}

export function fromStoredText(stored: string): string {
  if (!stored.startsWith(base64Mark)) return stored;
  return Buffer.from(stored.slice(base64Mark.length), "base64").toString("utf8");
}

/** Errors are for reading: a long one is cut, characters that a database cannot hold become U+FFFD, and none is null. */
export function toStoredError(error: string | null | undefined): string | null {
  if (!error) return null;
  return error.slice(0, longestErrorText).replaceAll("\0", "\uFFFD").toWellFormed();
}

/** The parameters of an error: its text and its group. */
export function storedError(error: string | null | undefined) {
  const stored = toStoredError(error);
  return { error: stored, error_group: errorGroupOf(stored) };
}

/** How a message is identified. */
export interface KeyShape<Key> {
  /** Checks a key from outside. */
  key(value: Key): Key;
  /** The same string for the same key. */
  keyText(key: Key): string;
  keyParams(key: Key): SqlParams;
  keyOf(row: SqlRow): Key;
  /** What tells it from the others of its sender: the message id in an inbox, the id in an outbox. */
  idOf(key: Key): string;
  /** The message's own id: in an outbox, that by which receivers deduplicate. */
  messageIdOf(row: SqlRow): string;
  /** For logs. */
  describe(key: Key): Readonly<Record<string, string>>;
}

export const inboxKey: KeyShape<InboxKey> = {
  key(value) {
    requireName(value?.source, "source");
    requireName(value.messageId, "messageId");
    return value;
  },
  keyText: (key) => JSON.stringify([key.source, key.messageId]),
  keyParams: (key) => ({ source: key.source, message_id: key.messageId }),
  keyOf: (row) => ({ source: row.source as string, messageId: row.message_id as string }),
  idOf: (key) => key.messageId,
  messageIdOf: (row) => row.message_id as string,
  describe: (key) => ({ source: key.source, messageId: key.messageId }),
};

export const outboxKey: KeyShape<OutboxKey> = {
  key(value) {
    if (!isGuid(value?.id)) {
      throw new InvalidArgumentError("An outbox message is named by { id }, the GUID that enqueue returned.");
    }
    return value;
  },
  keyText: (key) => key.id.toLowerCase(),
  keyParams: (key) => ({ id: key.id.toLowerCase() }),
  keyOf: (row) => ({ id: (row.id as string).toLowerCase() }),
  idOf: (key) => key.id.toLowerCase(),
  messageIdOf: (row) => (row.message_id as string).toLowerCase(),
  describe: (key) => ({ id: key.id }),
};
