import { isGuid } from "../base/guid.js";
import { uuidV7 } from "../base/uuid-v7.js";
import { InvalidArgumentError } from "../errors.js";
import { optionalKey, refuseUnknown, requireName } from "../queue/arguments.js";
import type { Database } from "../sql/dialect.js";
import type { SqlParams } from "../sql/driver.js";
import { contentFields, type MessageContent, withContent } from "../sql/message-content.js";

/** A message to send. */
export interface OutgoingMessage extends MessageContent {
  /** A GUID by which receivers deduplicate; the message's own `id` by default. */
  readonly messageId?: string | undefined;
  /**
   * What the message is about, such as `invoice-7`. Of all messages of a topic with the same natural key, the first is
   * enqueued: another call adds nothing and returns its id, as long as it is in the outbox, also when it is done or failed.
   */
  readonly naturalKey?: string | null | undefined;
}

const outgoingFields: readonly string[] = ["messageId", "naturalKey", ...contentFields];

/** Checks a message. Its id is new. */
export function outgoingParams(db: Database, message: OutgoingMessage): SqlParams {
  requireName(message?.topic, "topic");
  refuseUnknown(message, outgoingFields, "message", "field");
  const id = uuidV7();
  const messageId = message.messageId ?? id;
  if (!isGuid(messageId))
    throw new InvalidArgumentError("messageId must be a GUID. Leave it out for a new one.");
  const naturalKey = optionalKey(message.naturalKey, "naturalKey");
  const params = withContent({ id, message_id: messageId.toLowerCase() }, message, db.dialect);
  return naturalKey === null ? params : { ...params, natural_key: naturalKey }; // most have none, and do not send it
}
