import { isGuid } from "../base/guid.js";
import { InvalidArgumentError } from "../errors.js";
import { requireName } from "../queue/arguments.js";
import type { InboxKey, OutboxKey } from "../queue/message.js";
import type { SqlParams, SqlRow } from "./driver.js";

/** How a message is identified. */
export interface KeyShape<Key> {
  /** Checks a key from outside. */
  readonly key: (value: Key) => Key;
  /** The same string for the same key. */
  readonly keyText: (key: Key) => string;
  readonly keyParams: (key: Key) => SqlParams;
  readonly keyOf: (row: SqlRow) => Key;
  /** What tells it from the others of its sender: the message id in an inbox, the id in an outbox. */
  readonly idOf: (key: Key) => string;
  /** The message's own id: in an outbox, that by which receivers deduplicate. */
  readonly messageIdOf: (row: SqlRow) => string;
  /** For logs. */
  readonly describe: (key: Key) => Readonly<Record<string, string>>;
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
