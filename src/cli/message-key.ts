import { isGuid } from "../base/guid.js";
import type { AnyKey, AnyMessage } from "../queue/any-queue.js";
import type { InboxKey, OutboxKey } from "../queue/message.js";
import { text, UsageError, type Values } from "./command.js";
import type { QueueStores } from "./queue-stores.js";

export type MessageKey =
  | { readonly queue: "inbox"; readonly key: InboxKey }
  | { readonly queue: "outbox"; readonly key: OutboxKey };

export const keyForms = "SOURCE/MESSAGE-ID for the inbox, or the id of an outbox message";

/** Reads KEY. The source ends at the first slash, or `--source` gives it and KEY is the message id alone. */
export function parseKey(argument: string | undefined, values: Values): MessageKey {
  if (argument === undefined || argument === "") throw new UsageError(`KEY is missing: ${keyForms}.`);
  const source = text(values, "source");
  if (source !== undefined) return { queue: "inbox", key: { source, messageId: argument } };
  const isOutboxId: boolean = isGuid(argument);
  if (isOutboxId) return { queue: "outbox", key: { id: argument.toLowerCase() } };
  const slash = argument.indexOf("/");
  if (slash < 1 || slash === argument.length - 1)
    throw new UsageError(`"${argument}" is not a key: it must be ${keyForms}.`);
  const key = { source: argument.slice(0, slash), messageId: argument.slice(slash + 1) };
  return { queue: "inbox", key };
}

export const formatKey = (message: AnyKey): string =>
  "source" in message ? `${message.source}/${message.messageId}` : message.id;

export const getMessage = (stores: QueueStores, { queue, key }: MessageKey): Promise<AnyMessage | null> =>
  queue === "inbox" ? stores.inbox.get(key) : stores.outbox.get(key);
