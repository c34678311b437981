import { optionalHash, requireName } from "../queue/arguments.js";
import type { InboxKey } from "../queue/message.js";
import type { ReceivingDialect } from "../sql/dialect.js";
import type { SqlParams } from "../sql/driver.js";
import { withContent } from "../sql/message-content.js";
import { inboxKey } from "../sql/queue-keys.js";

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
  const { source, messageId } = inboxKey.key(message);
  return withContent({ source, message_id: messageId, hash: optionalHash(message.hash) }, message, dialect);
}

/** As part of a JSON array: bytes travel as hexadecimal. */
export const toItem = (params: SqlParams) =>
  Object.assign({}, params, {
    hash: params.hash === null ? null : Buffer.from(params.hash as Uint8Array).toString("hex"),
  });

export const keyOf = ({ source, message_id: messageId }: SqlParams): string =>
  inboxKey.keyText({ source: source as string, messageId: messageId as string });
