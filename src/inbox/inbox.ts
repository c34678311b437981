import { callInTransaction, checkCall, optionalHash, plainCall } from "../queue/arguments.js";
import type { ContentHash, InboxKey, InboxMessage, InboxState } from "../queue/message.js";
import type { TopicSchemas } from "../queue/topics.js";
import type { CallOptions, WorkStore } from "../queue/work-store.js";
import { announceDead } from "../sql/dead-letters.js";
import { type Database, status } from "../sql/dialect.js";
import { isTrue, type SqlExecutor } from "../sql/driver.js";
import { inboxShape } from "../sql/message-rows.js";
import type { AnyDatabase } from "../sql/native.js";
import { createQueueStore, queueParts } from "../sql/store.js";
import {
  type InboxCallOptions,
  type InboxOptions,
  type InboxReceiver,
  inboxReceiving,
  resolveInboxOptions,
} from "./receiver.js";

export type {
  BatchMessage,
  InboxCallOptions,
  InboxOptions,
  IncomingMessage,
  ReceiveCallOptions,
  ReceiveOutcome,
} from "./receiver.js";

/** Received messages, each once: deduplicated, claimed by dispatchers and kept as done. */
export interface Inbox<Topics extends TopicSchemas = TopicSchemas, Kind extends AnyDatabase = AnyDatabase>
  extends WorkStore<InboxKey, InboxMessage, InboxState, SqlExecutor<Kind>, Topics>,
    InboxReceiver<Kind> {
  /** Records an unknown message as Seen. Returns whether the message is done. */
  alreadyProcessed(
    key: InboxKey,
    hash?: ContentHash | null,
    options?: InboxCallOptions<Kind>,
  ): Promise<boolean>;
  /** For a caller that handles the message itself, without a claim. Only a Seen message changes. */
  markProcessing(key: InboxKey, options?: CallOptions): Promise<void>;
  /** Returns whether this call made the message Done. Of any number of calls at once, exactly one returns true. */
  markProcessed(key: InboxKey, options?: InboxCallOptions<Kind>): Promise<boolean>;
  /** A Done message stays Done. */
  markDead(key: InboxKey, error?: string, options?: CallOptions): Promise<void>;
}

/**
 * An inbox on a database. Does no I/O until it is used.
 *
 * @example
 * const inbox = createInbox(db);
 * const outcome = await inbox.receive({ source: "stripe", messageId: event.id, topic: event.type, payload: body });
 */
export function createInbox<
  Topics extends TopicSchemas = TopicSchemas,
  Kind extends AnyDatabase = AnyDatabase,
>(db: Database<Kind>, options: InboxOptions<Topics> = {}): Inbox<Topics, Kind> {
  const resolved = resolveInboxOptions(db, options);
  const parts = queueParts(db, "inbox", resolved);
  const { runner, statements } = parts;
  const store = createQueueStore(parts) as unknown as WorkStore<
    InboxKey,
    InboxMessage,
    InboxState,
    SqlExecutor<Kind>,
    Topics
  >;
  const { logger } = resolved;
  const { receive, enqueue, mark } = inboxReceiving(db, resolved, runner);

  return {
    ...store,

    receive,
    enqueue,

    async alreadyProcessed(key, hash, call = {}) {
      checkCall(call, callInTransaction, "alreadyProcessed");
      const params = { ...inboxShape.keyParams(inboxShape.key(key)), hash: optionalHash(hash) };
      const [row] = await runner.executeIn(call.tx, statements.alreadyProcessed, params, call);
      const processed = isTrue(row!.processed);
      logger.debug("already processed?", { source: key.source, messageId: key.messageId, processed });
      if (isTrue(row!.content_changed)) {
        logger.warn("the same id arrived with other content", {
          source: key.source,
          messageId: key.messageId,
        });
      }
      return processed;
    },

    async markProcessing(key, call = {}) {
      checkCall(call, plainCall, "markProcessing");
      await mark(key, status.processing, undefined, call);
    },
    async markProcessed(key, call = {}) {
      checkCall(call, callInTransaction, "markProcessed");
      return mark(key, status.done, undefined, call);
    },
    async markDead(key, error, call = {}) {
      checkCall(call, plainCall, "markDead");
      const changed = await mark(key, status.dead, error, call);
      if (changed)
        announceDead(
          parts,
          [{ source: key.source, messageId: key.messageId }],
          error || "Marked dead by hand.",
        );
    },
  };
}
