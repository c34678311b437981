import { isGuid } from "../base/guid.js";
import { uuidV7 } from "../base/uuid-v7.js";
import { InvalidArgumentError } from "../errors.js";
import { refuseUnknown, requireBatchSize, requireName } from "../queue/arguments.js";
import { callInTransaction, checkCall } from "../queue/check-call.js";
import type { OutboxKey, OutboxMessage, OutboxState } from "../queue/message.js";
import { newOwnerToken, type OwnerToken } from "../queue/owner-token.js";
import type { CallOptions, Settlement, WorkStore } from "../queue/work-store.js";
import { defaults } from "../sql/defaults.js";
import type { Database } from "../sql/dialect.js";
import type { SqlExecutor, SqlParams } from "../sql/driver.js";
import { inChunks } from "../sql/in-chunks.js";
import { type WithData, withPayload } from "../sql/json-data.js";
import { contentFields, type MessageContent, withContent, withTrace } from "../sql/message-content.js";
import { outboxShape } from "../sql/queue-shape.js";
import { createQueueStore } from "../sql/queue-store.js";
import { reasons } from "../sql/reasons.js";
import { rowNumber } from "../sql/row-number.js";
import { resolveStoreOptions, type StoreOptions } from "../sql/store-options.js";
import { type ResendOperations, resendOperations } from "./resend-operations.js";

/** A message to send. */
export interface OutgoingMessage extends MessageContent {
  /** A GUID by which receivers deduplicate; the message's own `id` by default. */
  readonly messageId?: string | undefined;
}

export interface EnqueueOptions extends CallOptions {
  /** The caller's transaction: `fromPg(client)`, `fromMssql(transaction)`, `fromSqlite(db)`, or one of `db.driver`'s. */
  readonly tx?: SqlExecutor;
}

export interface Outbox
  extends WorkStore<OutboxKey, OutboxMessage, OutboxState, SqlExecutor>,
    ResendOperations {
  /** Enqueues in the caller's transaction, or in one of its own. Returns the new message's id. */
  enqueue(message: WithData<OutgoingMessage>, options?: EnqueueOptions): Promise<string>;
  enqueue(
    messages: readonly WithData<OutgoingMessage>[],
    options?: EnqueueOptions,
  ): Promise<readonly string[]>;
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

  const insert = async (rows: readonly SqlParams[], { tx, signal }: EnqueueOptions): Promise<void> => {
    const hasKeys = rows.some((row) => row.partition_key !== undefined);
    if (rows.length === 1 && !hasKeys) {
      await internals.executeIn(tx, statements.enqueue, rows[0]!, { signal });
      return;
    }
    const many = hasKeys ? statements.enqueueKeyed : statements.enqueueMany;
    const { mostItems } = db.dialect;
    await inChunks(internals, rows, { mostItems, tx, call: { signal } }, (within, some) =>
      internals.executeIn(within, many, { items: JSON.stringify(some) }, { signal }),
    );
  };

  const enqueue = async (
    input: WithData<OutgoingMessage> | readonly WithData<OutgoingMessage>[],
    call: EnqueueOptions = {},
  ): Promise<string | readonly string[]> => {
    checkCall(call, callInTransaction, "enqueue");
    const messages = [input].flat().map((message) => withPayload(message as WithData<OutgoingMessage>));
    const rows = messages.map((message) => toParams(db, withTrace(message, resolved.tracing)));
    if (rows.length > 0) await insert(rows, call);
    for (const [index, message] of messages.entries()) {
      resolved.logger.info("enqueue", {
        topic: message.topic,
        correlationId: message.correlationId ?? null,
        id: rows[index]!.id as string,
        transactional: call.tx !== undefined,
      });
      resolved.metrics?.count("oncebox.enqueued", 1, { queue: resolved.queue, topic: message.topic });
    }
    const ids = rows.map((row) => row.id as string);
    return Array.isArray(input) ? ids : ids[0]!;
  };

  return {
    ...store,
    ...resendOperations(db, statements, internals),
    enqueue: enqueue as Outbox["enqueue"],
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

const outgoingFields: readonly string[] = ["messageId", ...contentFields];

/** After this time another process tells of the messages again. */
const tellingMs = 5 * 60_000;

function toParams(db: Database, message: OutgoingMessage): SqlParams {
  requireName(message?.topic, "topic");
  refuseUnknown(message, outgoingFields, "message", "field");
  const id = uuidV7();
  const messageId = message.messageId ?? id;
  if (!isGuid(messageId))
    throw new InvalidArgumentError("messageId must be a GUID. Leave it out for a new one.");
  return withContent({ id, message_id: messageId.toLowerCase() }, message, db.dialect);
}
