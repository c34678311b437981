import { InvalidArgumentError } from "../errors.js";
import type { InboxKey } from "../queue/message.js";
import type { CallOptions } from "../queue/work-store.js";
import { type ReceivingDatabase, status } from "../sql/dialect.js";
import type { SqlExecutor, SqlParams, SqlRow } from "../sql/driver.js";
import { isTrue } from "../sql/is-true.js";
import { inboxKey } from "../sql/queue-keys.js";
import { type StatementRunner, statementRunner } from "../sql/statement-runner.js";
import { type ResolvedStoreOptions, resolveStoreOptions, type StoreOptions } from "../sql/store-options.js";
import { type IncomingMessage, keyOf, toItem, toParams } from "./incoming-message.js";
import { sharedTrips } from "./receive-batching.js";

/**
 * - `enqueued`: new, and claimable from its due time on
 * - `duplicate`: already waiting or being handled
 * - `done`: already handled
 * - `dead`: it died before and stays dead (see `deadOnRedelivery`)
 * - `conflict`: known under another hash; unless it was handled already, the newer content is kept
 */
export type ReceiveOutcome = "enqueued" | "duplicate" | "done" | "dead" | "conflict";

export interface InboxOptions extends StoreOptions<InboxKey> {
  /** What a redelivery does to a dead message: `keep` (the default) refreshes its content, `revive` makes it claimable again. */
  readonly deadOnRedelivery?: "keep" | "revive";
}

export interface InboxCallOptions extends CallOptions {
  /** The caller's transaction: what is recorded counts with its commit, and not without. */
  readonly tx?: SqlExecutor | undefined;
}

export interface Receiver {
  /** Deduplicates and enqueues in one round trip. */
  receive(message: IncomingMessage, options?: InboxCallOptions): Promise<ReceiveOutcome>;
}

/**
 * The part of an inbox that a webhook needs, for a function that does nothing else and starts the sooner for it. The
 * schema is deployed by those who have the whole inbox.
 */
export function createReceiver(db: ReceivingDatabase, options: InboxOptions = {}): Receiver {
  const resolved = resolveInboxOptions(db, options);
  const { receive } = receiving(db, resolved, statementRunner(db, "inbox", resolved));
  return { receive };
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

/** How an inbox and a receiver alone receive. */
export function receiving(
  db: ReceivingDatabase,
  { schema, table, reviveDead, logger }: ResolvedInboxOptions,
  { executeIn }: Pick<StatementRunner, "executeIn">,
) {
  const { dialect } = db;
  const statements = dialect.receiving(dialect.names("inbox", schema, table), { reviveDead });

  const logReceived = (message: IncomingMessage, outcome: ReceiveOutcome): void => {
    const fields = { topic: message.topic, source: message.source, messageId: message.messageId, outcome };
    logger.info("enqueue", fields);
    if (outcome === "conflict") logger.warn("the same id arrived with other content", fields);
  };

  /** No key may come twice. The outcomes are in the messages' order. */
  const receiveMany = async (
    incoming: readonly SqlParams[],
    call: InboxCallOptions,
  ): Promise<readonly ReceiveOutcome[]> => {
    const hasPartitions = incoming.some((params) => params.partition_key !== undefined);
    // In the order of their keys, two batches with the same keys wait for each other instead of deadlocking. Those
    // with partition keys stay in their own order: where that leads to a deadlock, the batch is repeated.
    const sent = hasPartitions ? incoming : [...incoming].sort(byKey);
    const statement = hasPartitions ? statements.receiveKeyed : statements.receiveMany;
    const items = JSON.stringify(sent.map(toItem));
    const rows = await executeIn(call.tx, statement, { items }, call);
    const outcomes = new Map(rows.map((row) => [inboxKey.keyText(inboxKey.keyOf(row)), outcomeOf(row)]));
    return incoming.map((params) => outcomes.get(keyOf(params))!);
  };

  const receiveAlone = async (params: SqlParams, call: InboxCallOptions): Promise<ReceiveOutcome> =>
    params.partition_key === undefined
      ? outcomeOf((await executeIn(call.tx, statements.receive, params, call))[0]!)
      : (await receiveMany([params], call))[0]!;

  const receiveShared = sharedTrips<SqlParams, ReceiveOutcome>({
    alone: (params, signal) => receiveAlone(params, { signal }),
    together: (group, signal) => receiveMany(group, { signal }),
    keyOf,
    sizeOf: (params) => (params.payload as string).length,
    isOutage: (error) => dialect.classify(error) !== "permanent",
  });

  const receive: Receiver["receive"] = async (message, call = {}) => {
    const params = toParams(dialect, message);
    const mayShare = !dialect.embedded && call.tx === undefined && params.partition_key === undefined;
    const outcome = await (mayShare ? receiveShared(params, call.signal) : receiveAlone(params, call));
    logReceived(message, outcome);
    return outcome;
  };

  return { receive, receiveMany, logReceived };
}

function outcomeOf(row: SqlRow): ReceiveOutcome {
  if (row.outcome !== undefined) return row.outcome as ReceiveOutcome;
  if (isTrue(row.content_changed)) return "conflict";
  if (isTrue(row.enqueued)) return "enqueued";
  const before = Number(row.old_status);
  return before === status.done ? "done" : before === status.dead ? "dead" : "duplicate";
}

const byKey = (a: SqlParams, b: SqlParams): number =>
  compared(a.source as string, b.source as string) ||
  compared(a.message_id as string, b.message_id as string);

const compared = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);
