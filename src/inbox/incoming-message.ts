import { optionalHash, requireName } from "../queue/arguments.js";
import type { InboxKey } from "../queue/message.js";
import type { ReceivingDialect } from "../sql/dialect.js";
import type { SqlParams } from "../sql/driver.js";
import { type MessageContent, withContent } from "../sql/message-content.js";
import { inboxKey } from "../sql/queue-keys.js";

/** A message to receive. */
export interface IncomingMessage extends InboxKey, MessageContent {
  /** Hash of the content. It tells a redelivery from another message with the same id. */
  readonly hash?: Uint8Array | null | undefined;
}

/** A message of a batch. */
export interface BatchMessage extends IncomingMessage {
  /** Why it cannot be handled. It is stored as dead, with this reason, and the rest of the batch is enqueued. */
  readonly dead?: string | undefined;
}

/** Checks a message and turns it into statement parameters. */
export function toParams(dialect: ReceivingDialect, message: IncomingMessage): SqlParams {
  requireName(message?.topic, "topic");
  const { source, messageId } = inboxKey.key(message);
  return withContent({ source, message_id: messageId, hash: optionalHash(message.hash) }, message, dialect);
}

/** Parameters as an item of a JSON array, with the hash in hexadecimal. */
export const toItem = (params: SqlParams) =>
  Object.assign({}, params, {
    hash: params.hash === null ? null : Buffer.from(params.hash as Uint8Array).toString("hex"),
  });

export const keyTextOf = ({ source, message_id: messageId }: SqlParams): string =>
  inboxKey.keyText({ source: source as string, messageId: messageId as string });
