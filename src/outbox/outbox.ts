import { InvalidArgumentError } from "../errors.js";
import {
  checkCall,
  optionalCount,
  refuseUnknown,
  requireBatchSize,
  requireDuration,
} from "../queue/arguments.js";
import { newOwnerToken, type OwnerToken } from "../queue/leases.js";
import type { OutboxKey, OutboxMessage, OutboxState, QueueMessage } from "../queue/message.js";
import type { TopicSchemas } from "../queue/topics.js";
import type {
  CallOptions,
  DispatchStore,
  Page,
  ReplayOptions,
  Settlement,
  WorkStore,
} from "../queue/work-store.js";
import { announceDead, reasons } from "../sql/dead-letters.js";
import type { Database, OutboxStatements } from "../sql/dialect.js";
import { rowNumber, type SqlExecutor } from "../sql/driver.js";
import { toStoredError } from "../sql/message-content.js";
import { outboxShape } from "../sql/message-rows.js";
import type { AnyDatabase } from "../sql/native.js";
import { settle } from "../sql/settle.js";
import { createQueueStore, type QueueParts, queueParts } from "../sql/store.js";
import { defaults, resolveStoreOptions, type StoreOptions } from "../sql/store-options.js";
import { type Enqueuing, enqueuing } from "./enqueue.js";
import { type Streaming, streaming } from "./messages.js";

/** Messages to send, stored in the transaction of what they are about. */
export interface Outbox<Topics extends TopicSchemas = TopicSchemas, Kind extends AnyDatabase = AnyDatabase>
  extends WorkStore<OutboxKey, OutboxMessage, OutboxState, SqlExecutor<Kind>, Topics>,
    Enqueuing<Topics, Kind>,
    Streaming<Topics>,
    Resending {
  /** Makes messages Failed at once. `error` says why. */
  fail(
    owner: OwnerToken,
    messages: readonly OutboxKey[],
    error?: string | null,
    options?: CallOptions,
  ): Promise<Settlement<OutboxKey>>;
  /**
   * Calls `onDead` for Failed messages whose expiry has passed since, one batch of them, and waits for it. Their `lastError`
   * says so then. Each is reported once; again five minutes later when a process ends while it reports. Without this call a
   * message that has failed is reported once, as failed. `more`: there may be more.
   */
  expireFailed(options?: BatchOptions): Promise<{ readonly expired: number; readonly more: boolean }>;
}

interface BatchOptions extends CallOptions {
  /** Messages in one batch; 200 by default. */
  readonly batchSize?: number;
}

/** Options of an outbox. */
export type OutboxOptions<Topics extends TopicSchemas = TopicSchemas> = StoreOptions<OutboxKey, Topics>;

/**
 * An outbox on a database. Does no I/O until it is used.
 *
 * @example
 * const outbox = createOutbox(db);
 * await outbox.enqueue({ topic: "order.created", data: order }, { tx: fromPg(client) });
 */
export function createOutbox<
  Topics extends TopicSchemas = TopicSchemas,
  Kind extends AnyDatabase = AnyDatabase,
>(db: Database<Kind>, options: OutboxOptions<Topics> = {}): Outbox<Topics, Kind> {
  const resolved = resolveStoreOptions(db, "outbox", options);
  const parts = queueParts(db, "outbox", resolved);
  const { runner, statements } = parts;
  const store = createQueueStore(parts) as unknown as WorkStore<
    OutboxKey,
    OutboxMessage,
    OutboxState,
    SqlExecutor<Kind>,
    Topics
  >;

  return {
    ...store,
    ...resending(parts),
    ...enqueuing<Topics, Kind>(parts),
    ...streaming<Topics>(parts, store as unknown as DispatchStore<QueueMessage>),
    async expireFailed(call = {}) {
      checkCall(call, ["batchSize", "signal"], "expireFailed");
      const { batchSize = defaults.reapBatchSize, signal } = call;
      requireBatchSize(batchSize);
      const owner = newOwnerToken();
      const params = { owner, lease_ms: reportingMs, limit: batchSize };
      const rows = await runner.executeIn(undefined, statements.expireDead, params, { signal });
      const messages = rows.map((row) => ({ ...outboxShape.keyOf(row), seq: rowNumber(row.seq) }));
      await announceDead(parts, messages, reasons.expired);
      await store.release(owner, messages, { signal });
      return { expired: messages.length, more: messages.length >= batchSize };
    },
  };
}

/** After this time another process reports the messages again. */
const reportingMs = 5 * 60_000;

/** A message that was sent, without what it contains. It is a key: settling by it saves a query. */
interface DoneMessage extends OutboxKey {
  readonly seq: number;
  readonly topic: string;
  readonly processedAt: Date;
}

interface DoneFilter extends CallOptions {
  /** 100 by default, 1,000 at most. */
  readonly limit?: number;
  readonly after?: number | undefined;
}

interface Resending {
  /** Done messages in the order in which they were enqueued. Their payloads are not read. */
  listDone(filter?: DoneFilter): Promise<Page<DoneMessage>>;
  /**
   * Makes Done messages claimable again, with attempt 0, under their ids. For receivers that have lost what they got. Those
   * that still know a message deduplicate it.
   */
  resend(messages: readonly OutboxKey[], options?: ReplayOptions): Promise<Settlement<OutboxKey>>;
  /** Makes one batch of messages due at once that wait for their next attempt with exactly this `lastError`. */
  makeDue(
    error: string,
    options?: BatchOptions,
  ): Promise<{ readonly changed: number; readonly more: boolean }>;
}

/** Sends messages again, or earlier. */
function resending(parts: QueueParts<OutboxStatements>): Resending {
  const { db, statements, runner } = parts;
  return {
    async listDone(filter = {}) {
      refuseUnknown(filter, ["limit", "after", "signal"], "listDone");
      const { limit = defaults.listLimit, after, signal } = filter;
      requireBatchSize(limit, "limit");
      optionalCount(after, "after", 0);
      const params = { after_seq: after ?? 0, limit };
      const rows = await runner.executeIn(undefined, statements.listDone, params, { signal });
      const messages = rows.map((row) => ({
        ...outboxShape.keyOf(row),
        seq: rowNumber(row.seq),
        topic: row.topic as string,
        processedAt: db.dialect.fromTime(row.processed_at),
      }));
      return { messages, cursor: messages.length < limit ? null : messages.at(-1)!.seq };
    },

    async resend(messages, call = {}) {
      checkCall(call, ["ttlMs", "signal"], "resend");
      if (call.ttlMs !== undefined) requireDuration(call.ttlMs, "ttlMs");
      const params = { ttl_ms: call.ttlMs ?? null };
      const what = { verb: "resend", statement: statements.resend, params };
      return settle(parts, messages, call, what) as Promise<Settlement<OutboxKey>>;
    },

    async makeDue(error, call = {}) {
      checkCall(call, ["batchSize", "signal"], "makeDue");
      const { batchSize = defaults.reapBatchSize, signal } = call;
      if (typeof error !== "string" || error === "")
        throw new InvalidArgumentError(
          "makeDue: error must be the lastError of the messages that are meant.",
        );
      requireBatchSize(batchSize);
      const params = { error: toStoredError(error), limit: batchSize };
      const { length } = await runner.executeIn(undefined, statements.makeDue, params, { signal });
      return { changed: length, more: length >= batchSize };
    },
  };
}
