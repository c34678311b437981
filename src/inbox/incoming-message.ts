import {
  optionalDate,
  optionalHash,
  optionalHeaders,
  optionalName,
  optionalPartitionKey,
  requireName,
  requirePayload,
} from "../queue/arguments.js";
import type { InboxKey } from "../queue/message.js";
import type { ReceivingDialect } from "../sql/dialect.js";
import type { SqlParams, SqlValue } from "../sql/driver.js";
import { inboxKey } from "../sql/queue-keys.js";
import { toStoredText } from "../sql/stored-text.js";

/** What arrives. */
export interface IncomingMessage extends InboxKey {
  readonly topic: string;
  /** Any text; it may be empty. */
  readonly payload: string;
  /** Of the content, to tell a redelivery from another message under the same id. */
  readonly hash?: Uint8Array | null | undefined;
  readonly correlationId?: string | null | undefined;
  /** Messages with the same one are handled one at a time, in the order in which they were enqueued. */
  readonly partitionKey?: string | null | undefined;
  readonly headers?: Readonly<Record<string, string>> | null | undefined;
  /** Not before; at once by default. */
  readonly dueAt?: Date | null | undefined;
  /** Not after: an unhandled message is dead then. */
  readonly expiresAt?: Date | null | undefined;
}

/** As a statement takes it, once it has been checked. */
export function toParams(dialect: ReceivingDialect, message: IncomingMessage): SqlParams {
  requireName(message?.topic, "topic");
  inboxKey.key(message);
  requirePayload(message.payload);
  const time = (date: Date | null) => (date === null ? null : dialect.toTime(date));
  const headers = optionalHeaders(message.headers);
  const partitionKey = optionalPartitionKey(message.partitionKey);
  const params: Record<string, SqlValue> = {
    source: message.source,
    message_id: message.messageId,
    topic: message.topic,
    payload: toStoredText(message.payload),
    hash: optionalHash(message.hash),
    correlation_id: optionalName(message.correlationId, "correlationId"),
    headers: headers === null ? null : toStoredText(JSON.stringify(headers)),
    due_at: time(optionalDate(message.dueAt, "dueAt")),
    expires_at: time(optionalDate(message.expiresAt, "expiresAt")),
  };
  if (partitionKey !== null) params.partition_key = partitionKey; // nearly always absent, and then not sent
  return params;
}

/** As part of a JSON array: bytes travel as hexadecimal. */
export const toItem = (params: SqlParams) =>
  Object.assign({}, params, {
    hash: params.hash === null ? null : Buffer.from(params.hash as Uint8Array).toString("hex"),
  });

export const keyOf = ({ source, message_id: messageId }: SqlParams): string =>
  inboxKey.keyText({ source: source as string, messageId: messageId as string });
