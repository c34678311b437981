import { type Tracing, withContextHeaders } from "../base/tracing.js";
import {
  optionalDate,
  optionalHeaders,
  optionalKey,
  optionalName,
  requirePayload,
} from "../queue/arguments.js";
import type { ReceivingDialect } from "./dialect.js";
import type { SqlParams, SqlValue } from "./driver.js";
import { toStoredText } from "./stored-text.js";

/** The fields that a message to receive and a message to send have in common. */
export interface MessageContent {
  readonly topic: string;
  /** Any text; it may be empty. */
  readonly payload: string;
  readonly correlationId?: string | null | undefined;
  /** Messages with the same partition key are handled one at a time, in the order in which they were enqueued. */
  readonly partitionKey?: string | null | undefined;
  readonly headers?: Readonly<Record<string, string>> | null | undefined;
  /** The message is not claimed before this time; due at once by default. */
  readonly dueAt?: Date | null | undefined;
  /** A message that is not handled by this time is dead (in the inbox) or failed (in the outbox). */
  readonly expiresAt?: Date | null | undefined;
}

export const contentFields: readonly string[] = [
  "topic",
  "payload",
  "correlationId",
  "partitionKey",
  "headers",
  "dueAt",
  "expiresAt",
] satisfies (keyof MessageContent)[];

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
  params.topic = message.topic;
  params.payload = toStoredText(message.payload);
  params.correlation_id = optionalName(message.correlationId, "correlationId");
  params.headers = headers === null ? null : toStoredText(JSON.stringify(headers));
  params.due_at = time(optionalDate(message.dueAt, "dueAt"));
  params.expires_at = time(optionalDate(message.expiresAt, "expiresAt"));
  if (partitionKey !== null) params.partition_key = partitionKey; // absent for nearly every message, and then not sent
  return params;
}
