import { InvalidArgumentError } from "../errors.js";
import type { InboxKey } from "../queue/message.js";
import type { CallOptions } from "../queue/work-store.js";
import { announceDeadTo } from "../sql/announce-dead.js";
import { type ReceivingDatabase, status } from "../sql/dialect.js";
import type { SqlExecutor, SqlParams, SqlRow } from "../sql/driver.js";
import { inChunks } from "../sql/in-chunks.js";
import { isTrue } from "../sql/is-true.js";
import type { WithData } from "../sql/json-data.js";
import { withTrace } from "../sql/message-content.js";
import { inboxKey } from "../sql/queue-keys.js";
import { type StatementRunner, statementRunner } from "../sql/statement-runner.js";
import { type ResolvedStoreOptions, resolveStoreOptions, type StoreOptions } from "../sql/store-options.js";
import { storedError } from "../sql/stored-text.js";
import { batchReceiver, type Received } from "./batch-receiver.js";
import {
  type BatchMessage,
  type IncomingMessage,
  keyTextOf,
  toItem,
  toParams,
  toReceive,
} from "./incoming-message.js";
import { receiveBatching } from "./receive-batching.js";

/**
 * - `enqueued`: new, and claimable from its due time on
 * - `duplicate`: known, and not handled yet
 * - `done`: handled before
 * - `dead`: dead, and stays so (see `deadOnRedelivery`)
 * - `conflict`: known with another hash; the newer content is stored unless the message is done
 */
export type ReceiveOutcome = "enqueued" | "duplicate" | "done" | "dead" | "conflict";

export interface InboxOptions extends StoreOptions<InboxKey> {
  /** What a redelivery does to a dead message: `keep` (the default) updates its content, `revive` also makes it claimable. */
  readonly deadOnRedelivery?: "keep" | "revive";
}

export interface InboxCallOptions extends CallOptions {
  /** The caller's transaction. The call takes effect when it commits. */
  readonly tx?: SqlExecutor;
}

export interface Receiver {
  /** Deduplicates and enqueues in one round trip. */
  receive(message: WithData<IncomingMessage>, options?: InboxCallOptions): Promise<ReceiveOutcome>;
  /** The same for many messages in one round trip, all or none of them. The outcomes are in the messages' order. */
  enqueue(
    messages: readonly WithData<BatchMessage>[],
    options?: InboxCallOptions,
  ): Promise<readonly ReceiveOutcome[]>;
}

/**
 * The part of an inbox that a webhook needs. A function that only receives loads less and starts sooner. It cannot deploy
 * the schema: `createInbox` and `migrate` can.
 */
export function createReceiver(db: ReceivingDatabase, options: InboxOptions = {}): Receiver {
  const resolved = resolveInboxOptions(db, options);
  const { receive, enqueue } = receiving(db, resolved, statementRunner(db, "inbox", resolved));
  return { receive, enqueue };
}

export interface ResolvedInboxOptions extends ResolvedStoreOptions<InboxKey> {
  readonly reviveDead: boolean;
}

export function resolveInboxOptions(db: ReceivingDatabase, options: InboxOptions): ResolvedInboxOptions {
  const resolved = resolveStoreOptions(db, "inbox", options, ["deadOnRedelivery"]);
  const onRedelivery = options.deadOnRedelivery ?? "keep";
  if (onRedelivery !== "keep" && onRedelivery !== "revive") {
    throw new InvalidArgumentError('deadOnRedelivery must be "keep" or "revive".');
  }
  return { ...resolved, reviveDead: onRedelivery === "revive" };
}

/** The receiving part that `createInbox` and `createReceiver` share. */
export function receiving(
  db: ReceivingDatabase,
  resolved: ResolvedInboxOptions,
  runner: Pick<StatementRunner, "executeIn" | "atomically">,
) {
  const { dialect } = db;
  const { schema, table, logger, metrics, tracing, queue, reviveDead, blockOnDead } = resolved;
  const statements = dialect.receiving(dialect.names("inbox", schema, table), { reviveDead, blockOnDead });
  const announceDead = announceDeadTo(resolved, { describe: inboxKey.describe });

  const logReceived = (message: IncomingMessage, outcome: ReceiveOutcome): void => {
    const fields = { topic: message.topic, source: message.source, messageId: message.messageId, outcome };
    logger.info("enqueue", fields);
    metrics?.count("oncebox.received", 1, { queue, source: message.source, outcome });
    if (outcome === "conflict") logger.warn("the same id arrived with other content", fields);
  };

  /** No two messages may have the same key. The outcomes are in the messages' order. */
  const receiveMany = async (
    incoming: readonly SqlParams[],
    call: InboxCallOptions,
  ): Promise<readonly Received[]> => {
    const hasPartitions = incoming.some((params) => params.partition_key !== undefined);
    // Sorted by key, two batches with the same keys wait for each other instead of deadlocking. Messages with partition
    // keys must keep their order: where that leads to a deadlock, the batch is retried.
    const ordered = hasPartitions ? incoming : [...incoming].sort(byKey);
    const statement = hasPartitions ? statements.receiveKeyed : statements.receiveMany;
    const { mostItems } = dialect;
    const rows = await inChunks(runner, ordered, { mostItems, tx: call.tx, call }, (tx, some) =>
      runner.executeIn(tx, statement, { items: JSON.stringify(some.map(toItem)) }, call),
    );
    const received = new Map(
      rows.map((row) => [
        inboxKey.keyText(inboxKey.keyOf(row)),
        { outcome: outcomeOf(row), buried: isTrue(row.buried) },
      ]),
    );
    return incoming.map((params) => received.get(keyTextOf(params))!);
  };

  const receiveOne = async (params: SqlParams, call: InboxCallOptions): Promise<ReceiveOutcome> =>
    params.partition_key === undefined
      ? outcomeOf((await runner.executeIn(call.tx, statements.receive, params, call))[0]!)
      : (await receiveMany([params], call))[0]!.outcome;

  const receiveInBatch = receiveBatching<SqlParams, ReceiveOutcome>({
    receiveOne: (params, signal) => receiveOne(params, { signal }),
    receiveBatch: async (batch, signal) =>
      (await receiveMany(batch, { signal })).map(({ outcome }) => outcome),
    keyOf: keyTextOf,
    sizeOf: (params) => (params.payload as string).length,
    isOutage: (error) => dialect.classify(error) !== "permanent",
  });

  const receive: Receiver["receive"] = async (given, call = {}) => {
    const message = toReceive(given, call);
    const params = toParams(dialect, withTrace(message, tracing));
    const mayBatch = !dialect.embedded && call.tx === undefined && params.partition_key === undefined;
    const outcome = await (mayBatch ? receiveInBatch(params, call.signal) : receiveOne(params, call));
    logReceived(message, outcome);
    return outcome;
  };

  /** Returns whether the message has changed. */
  const mark = async (
    key: InboxKey,
    to: number,
    error: string | undefined,
    call: InboxCallOptions,
  ): Promise<boolean> => {
    const params = { ...inboxKey.keyParams(inboxKey.key(key)), status: to, ...storedError(error) };
    return (await runner.executeIn(call.tx, statements.mark, params, call)).length > 0;
  };

  const enqueue = batchReceiver({ dialect, tracing, runner, receiveMany, mark, logReceived, announceDead });

  return { receive, enqueue, mark };
}

function outcomeOf(row: SqlRow): ReceiveOutcome {
  if (row.outcome !== undefined) return row.outcome as ReceiveOutcome;
  if (isTrue(row.content_changed)) return "conflict";
  if (isTrue(row.enqueued)) return "enqueued";
  const oldStatus = Number(row.old_status);
  return oldStatus === status.done ? "done" : oldStatus === status.dead ? "dead" : "duplicate";
}

const byKey = (a: SqlParams, b: SqlParams): number =>
  compareText(a.source as string, b.source as string) ||
  compareText(a.message_id as string, b.message_id as string);

const compareText = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);
