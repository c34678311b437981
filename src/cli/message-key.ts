import { inboxKeyOf, keysMeantBy } from "../admin/page/key-text.js";
import { isGuid } from "../base/guid.js";
import type { AnyMessage } from "../queue/any-queue.js";
import type { InboxKey, OutboxKey } from "../queue/message.js";
import { text, UsageError, type Values } from "./command.js";
import type { QueueStores } from "./queue-stores.js";

export type MessageKey =
  | { readonly queue: "inbox"; readonly key: InboxKey }
  | { readonly queue: "outbox"; readonly key: OutboxKey };

export const keyForms = "SOURCE/MESSAGE-ID for the inbox, or the id of an outbox message";

/** Reads KEY, which is what `keyText` writes; with `--source` it is the message id alone, as the sender wrote it. */
export function parseKey(argument: string | undefined, values: Values): MessageKey {
  if (argument === undefined || argument === "") throw new UsageError(`KEY is missing: ${keyForms}.`);
  const source = text(values, "source");
  if (source !== undefined) return { queue: "inbox", key: { source, messageId: argument } };
  const isOutboxId: boolean = isGuid(argument);
  if (isOutboxId) return { queue: "outbox", key: { id: argument.toLowerCase() } };
  const key = inboxKeyOf(argument);
  if (key === undefined) throw new UsageError(problemOf(argument));
  return { queue: "inbox", key };
}

const mostNamed = 5;

/** A text that could be more than one key is refused: `dead discard` must not guess. */
function problemOf(argument: string): string {
  const meant = keysMeantBy(argument).slice(0, mostNamed);
  if (meant.length === 0) return `"${argument}" is not a key: it must be ${keyForms}.`;
  return `"${argument}" is not a key: in a name, "/" is written %2F and "%" is written %25. Do you mean ${meant.join(" or ")}? Or give the message id alone, and its source with --source.`;
}

export const getMessage = (stores: QueueStores, { queue, key }: MessageKey): Promise<AnyMessage | null> =>
  queue === "inbox" ? stores.inbox.get(key) : stores.outbox.get(key);
