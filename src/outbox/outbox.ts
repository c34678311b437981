import { requireBatchSize } from "../queue/arguments.js";
import { checkCall } from "../queue/check-call.js";
import type { OutboxKey, OutboxMessage, OutboxState } from "../queue/message.js";
import { newOwnerToken, type OwnerToken } from "../queue/owner-token.js";
import type { CallOptions, Settlement, WorkStore } from "../queue/work-store.js";
import { defaults } from "../sql/defaults.js";
import type { Database } from "../sql/dialect.js";
import type { SqlExecutor } from "../sql/driver.js";
import { outboxShape } from "../sql/queue-shape.js";
import { createQueueStore } from "../sql/queue-store.js";
import { reasons } from "../sql/reasons.js";
import { rowNumber } from "../sql/row-number.js";
import { resolveStoreOptions, type StoreOptions } from "../sql/store-options.js";
import { type EnqueueOperations, enqueueOperations } from "./enqueue-operations.js";
import { type ResendOperations, resendOperations } from "./resend-operations.js";

export interface Outbox
  extends WorkStore<OutboxKey, OutboxMessage, OutboxState, SqlExecutor>,
    EnqueueOperations,
    ResendOperations {
  /** Makes messages Failed at once. `error` says why. */
  fail(
    owner: OwnerToken,
    messages: readonly OutboxKey[],
    error?: string | null,
    options?: CallOptions,
  ): Promise<Settlement<OutboxKey>>;
  /**
   * Calls `onDead` for Failed messages whose expiry has passed since, one batch of them, and waits for it. Their `lastError`
   * says so then. Each is told once; again five minutes later when a process ends while it tells. Without this call a
   * message that has failed is told once, as failed.
   */
  expireFailed(options?: ExpireOptions): Promise<ExpireResult>;
}

export interface ExpireOptions extends CallOptions {
  /** Messages in one batch; 200 by default. */
  readonly batchSize?: number;
}

export interface ExpireResult {
  /** Messages whose expiry was told. */
  readonly expired: number;
  /** There may be more. */
  readonly more: boolean;
}

export type OutboxOptions = StoreOptions<OutboxKey>;

/**
 * An outbox on a database. Does no I/O until it is used.
 *
 * @example
 * const outbox = createOutbox(db);
 * await outbox.enqueue({ topic: "order.created", payload: JSON.stringify(order) }, { tx: fromPg(client) });
 */
export function createOutbox(db: Database, options: OutboxOptions = {}): Outbox {
  const resolved = resolveStoreOptions(db, "outbox", options);
  const names = db.dialect.names("outbox", resolved.schema, resolved.table);
  const statements = db.dialect.outbox(names, { blockOnDead: resolved.blockOnDead });
  const { internals, ...store } = createQueueStore({
    db,
    kind: "outbox",
    shape: outboxShape,
    statements,
    options: resolved,
  });

  return {
    ...store,
    ...resendOperations(db, statements, internals),
    ...enqueueOperations({ db, statements, internals, options: resolved }),
    async expireFailed(call = {}) {
      checkCall(call, ["batchSize", "signal"], "expireFailed");
      const { batchSize = defaults.reapBatchSize, signal } = call;
      requireBatchSize(batchSize);
      const owner = newOwnerToken();
      const params = { owner, lease_ms: tellingMs, limit: batchSize };
      const rows = await internals.executeIn(undefined, statements.expireDead, params, { signal });
      const messages = rows.map((row) => ({ ...outboxShape.keyOf(row), seq: rowNumber(row.seq) }));
      await internals.announceDead(messages, reasons.expired);
      await store.release(owner, messages, { signal });
      return { expired: messages.length, more: messages.length >= batchSize };
    },
  };
}

/** After this time another process tells of the messages again. */
const tellingMs = 5 * 60_000;
