import { omitUndefined } from "../base/defined.js";
import {
  callInTransaction,
  checkCall,
  optionalHash,
  optionalText,
  refuseUnknown,
  requireList,
  requireName,
  withPayload,
} from "../queue/arguments.js";
import {
  type ContentHash,
  contentFields,
  type InboxKey,
  type MessageContent,
  type WithData,
} from "../queue/message.js";
import type { TopicSchemas } from "../queue/topics.js";
import type { CallOptions } from "../queue/work-store.js";
import { announceDead } from "../sql/dead-letters.js";
import {
  type ReceiveStatements,
  type ReceivingDatabase,
  type ReceivingDialect,
  status,
} from "../sql/dialect.js";
import { isTrue, type SqlExecutor, type SqlParams, type SqlRow } from "../sql/driver.js";
import { inboxKey, storedError, withContent, withTrace } from "../sql/message-content.js";
import type { AnyDatabase } from "../sql/native.js";
import { inChunks, type StatementRunner, statementRunner } from "../sql/statement-runner.js";
import { type ResolvedStoreOptions, resolveStoreOptions, type StoreOptions } from "../sql/store-options.js";
import { receiveBatching } from "./receive-batching.js";

/**
 * - `enqueued`: new, and claimable from its due time on
 * - `duplicate`: known, and not handled yet
 * - `done`: handled before
 * - `dead`: dead, and stays so (see `deadOnRedelivery`)
 * - `conflict`: known with another hash of the same algorithm; the newer content is stored unless the message is done
 */
export type ReceiveOutcome = "enqueued" | "duplicate" | "done" | "dead" | "conflict";

/** A message to receive. */
export interface IncomingMessage extends InboxKey, MessageContent {
  /** A hash of the content, such as `sha256:9f86d0…`. It tells a redelivery from another message with the same id. */
  readonly hash?: ContentHash | null | undefined;
}

/** A message of a batch. */
export interface BatchMessage extends IncomingMessage {
  /** Why it cannot be handled. It is stored as dead, with this reason, and the rest of the batch is enqueued. */
  readonly dead?: string | undefined;
}

/** Options of an inbox. */
export interface InboxOptions<Topics extends TopicSchemas = TopicSchemas>
  extends StoreOptions<InboxKey, Topics> {
  /** What a redelivery does to a dead message: `keep` (the default) updates its content, `revive` also makes it claimable. */
  readonly deadOnRedelivery?: "keep" | "revive";
}

/** Options of a call that can be part of the caller's transaction. */
export interface InboxCallOptions<Kind extends AnyDatabase = AnyDatabase> extends CallOptions {
  /** The caller's transaction. The call takes effect when it commits. */
  readonly tx?: SqlExecutor<Kind>;
}

/** Options of a call that receives messages. */
export interface ReceiveCallOptions<Kind extends AnyDatabase = AnyDatabase> extends InboxCallOptions<Kind> {
  /**
   * A known message keeps its first content, and a dead one stays dead. For deliveries of which the sender proves only a part: a
   * copy of one could bring anything in the rest. The outcome of other content is `conflict`.
   */
  readonly keepContent?: boolean;
}

/** Puts messages into an inbox. */
export interface InboxReceiver<Kind extends AnyDatabase = AnyDatabase> {
  /** Deduplicates and enqueues in one round trip. */
  receive(message: WithData<IncomingMessage>, options?: ReceiveCallOptions<Kind>): Promise<ReceiveOutcome>;
  /** The same for many messages in one round trip, all or none of them. The outcomes are in the messages' order. */
  enqueue(
    messages: readonly WithData<BatchMessage>[],
    options?: ReceiveCallOptions<Kind>,
  ): Promise<readonly ReceiveOutcome[]>;
}

/**
 * The part of an inbox that a webhook needs. A function that only receives loads less and starts sooner. It cannot deploy
 * the schema: `createInbox` and `migrate` can.
 */
export function createInboxReceiver(db: ReceivingDatabase, options: InboxOptions = {}): InboxReceiver {
  const resolved = resolveInboxOptions(db, options);
  const { receive, enqueue } = inboxReceiving(db, resolved, statementRunner(db, "inbox", resolved));
  return { receive, enqueue };
}

interface ResolvedInboxOptions extends ResolvedStoreOptions<InboxKey> {
  readonly reviveDead: boolean;
}

export function resolveInboxOptions(db: ReceivingDatabase, options: InboxOptions): ResolvedInboxOptions {
  const resolved = resolveStoreOptions(db, "inbox", options);
  return { ...resolved, reviveDead: options.deadOnRedelivery === "revive" };
}

const longestReason = 4_000;
const receiveCall = [...callInTransaction, "keepContent"];

/** What `createInbox` and `createInboxReceiver` share. */
export function inboxReceiving(
  db: ReceivingDatabase,
  resolved: ResolvedInboxOptions,
  runner: Pick<StatementRunner, "executeIn" | "atomically">,
) {
  const { dialect } = db;
  const { schema, table, logger, metrics, tracing, queue, reviveDead, blockOnDead } = resolved;
  const statementsWith = (keepContent: boolean): ReceiveStatements =>
    dialect.receiving(dialect.names("inbox", schema, table), { reviveDead, blockOnDead, keepContent });
  const statements = statementsWith(false);
  let keeping: ReceiveStatements | undefined; // few apps have a use for them
  const statementsOf = ({ keepContent = false }: ReceiveCallOptions): ReceiveStatements => {
    if (!keepContent) return statements;
    keeping ??= statementsWith(true);
    return keeping;
  };
  const receivesDead = dialect.receivesDead === true;

  const logReceived = (message: IncomingMessage, outcome: ReceiveOutcome): void => {
    const fields = { topic: message.topic, source: message.source, messageId: message.messageId, outcome };
    logger.info("enqueue", fields);
    metrics?.count("oncebox.received", 1, { queue, source: message.source, outcome });
    if (outcome === "conflict") logger.warn("the same id arrived with other content", fields);
  };

  /** No two messages may have the same key. The outcomes are in the messages' order. */
  const receiveMany = async (
    incoming: readonly SqlParams[],
    call: ReceiveCallOptions,
  ): Promise<readonly Received[]> => {
    const hasPartitions = incoming.some((params) => params.partition_key !== undefined);
    // Sorted by key, two batches with the same keys wait for each other instead of deadlocking. Messages with partition
    // keys must keep their order: where that leads to a deadlock, the batch is retried.
    const ordered = hasPartitions ? incoming : [...incoming].sort(byKey);
    const { maxItems } = dialect;
    const rows = await inChunks(runner, ordered, { maxItems, tx: call.tx, call }, (tx, some) =>
      runner.executeIn(tx, statementsOf(call).receiveMany, { items: JSON.stringify(some) }, call),
    );
    const received = new Map(
      rows.map((row) => [
        inboxKey.keyText(inboxKey.keyOf(row)),
        { outcome: outcomeOf(row), buried: isTrue(row.buried) },
      ]),
    );
    return incoming.map((params) => received.get(keyTextOf(params))!);
  };

  const receiveOne = async (params: SqlParams, call: ReceiveCallOptions): Promise<ReceiveOutcome> =>
    params.partition_key === undefined
      ? outcomeOf((await runner.executeIn(call.tx, statementsOf(call).receive, params, call))[0]!)
      : (await receiveMany([params], call))[0]!.outcome;

  const receiveInBatch = receiveBatching<SqlParams, ReceiveOutcome>({
    receiveOne: (params, signal) => receiveOne(params, { signal }),
    receiveBatch: async (batch, signal) =>
      (await receiveMany(batch, { signal })).map(({ outcome }) => outcome),
    keyOf: keyTextOf,
    sizeOf: (params) => (params.payload as string).length,
    isOutage: (error) => dialect.classify(error) !== "permanent",
  });

  const receive: InboxReceiver["receive"] = async (given, call = {}) => {
    checkCall(call, receiveCall, "receive");
    const message = withPayload(given);
    const params = toParams(dialect, withTrace(message, tracing));
    const mayBatch =
      !dialect.embedded && call.tx === undefined && !call.keepContent && params.partition_key === undefined;
    const outcome = await (mayBatch ? receiveInBatch(params, call.signal) : receiveOne(params, call));
    logReceived(message, outcome);
    return outcome;
  };

  /** Returns whether the message has changed. */
  const mark = async (
    key: InboxKey,
    to: number,
    error: string | undefined,
    call: ReceiveCallOptions,
  ): Promise<boolean> => {
    const params = { ...inboxKey.keyParams(inboxKey.key(key)), status: to, ...storedError(error) };
    return (await runner.executeIn(call.tx, statements.mark, params, call)).length > 0;
  };

  const batchParams = (message: BatchMessage): SqlParams => {
    const { dead, ...content } = message ?? {};
    optionalText(dead, "dead", longestReason);
    const params = toParams(dialect, withTrace(content as IncomingMessage, tracing));
    return receivesDead && dead !== undefined ? { ...params, ...deadReasonParams(dead) } : params;
  };

  /** New content that cannot be handled is dead at once. What was handled before stays done. */
  const finalOutcome = async (
    message: BatchMessage,
    { outcome, buried }: Received,
    call: ReceiveCallOptions,
  ): Promise<ReceiveOutcome> => {
    if (buried) return "dead";
    const { dead } = message;
    const hasNewContent = outcome === "enqueued" || (outcome === "conflict" && !call.keepContent);
    const mustDie = !receivesDead && dead !== undefined && hasNewContent;
    return mustDie && (await mark(message, status.dead, dead, call)) ? "dead" : outcome;
  };

  const enqueue: InboxReceiver["enqueue"] = async (given, call = {}) => {
    checkCall(call, receiveCall, "enqueue");
    requireList(given, "messages");
    if (given.length === 0) return [];
    const messages = given.map((one) => withPayload<BatchMessage>(one));
    const batches = batchesOf(messages.map(batchParams));
    const receiveAll = async (tx: SqlExecutor | undefined) => {
      const inside = { ...call, ...omitUndefined({ tx }) };
      const received: Received[] = [];
      for (const batch of batches) {
        const some = await receiveMany([...batch.values()], inside);
        for (const [at, index] of [...batch.keys()].entries()) received[index] = some[at]!;
      }
      const outcomes: ReceiveOutcome[] = [];
      for (const [index, message] of messages.entries())
        outcomes.push(await finalOutcome(message, received[index]!, inside));
      return { outcomes, died: messages.filter((_, index) => outcomes[index] !== received[index]!.outcome) };
    };
    const isOneStatement =
      batches.length === 1 && (receivesDead || messages.every(({ dead }) => dead === undefined));
    const { outcomes, died } =
      isOneStatement || call.tx !== undefined
        ? await receiveAll(call.tx)
        : await runner.atomically(receiveAll, call);
    for (const [index, message] of messages.entries()) logReceived(message, outcomes[index]!);
    for (const { source, messageId, dead } of died)
      announceDead({ options: resolved, shape: inboxKey }, [{ source, messageId }], dead!);
    return outcomes;
  };

  return { receive, enqueue, mark };
}

interface Received {
  readonly outcome: ReceiveOutcome;
  /** It came as dead, and was stored so. */
  readonly buried: boolean;
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

const keyTextOf = ({ source, message_id: messageId }: SqlParams): string =>
  inboxKey.keyText({ source: source as string, messageId: messageId as string });

const incomingFields: readonly string[] = ["source", "messageId", "hash", "data", ...contentFields];

/** Checks a message and turns it into statement parameters. */
function toParams(dialect: ReceivingDialect, message: IncomingMessage): SqlParams {
  requireName(message?.topic, "topic");
  refuseUnknown(message, incomingFields, "message", "field");
  const { source, messageId } = inboxKey.key(message);
  return withContent({ source, message_id: messageId, hash: optionalHash(message.hash) }, message, dialect);
}

/** Without a reason the text is empty, and not null: the message is dead all the same. */
const deadReasonParams = (dead: string) => {
  const stored = storedError(dead);
  return { ...stored, error: stored.error ?? "" };
};

/** By index. One statement cannot change a row twice, so each repetition of a key is put in a later batch. */
function batchesOf(all: readonly SqlParams[]): readonly Map<number, SqlParams>[] {
  const batches: Map<number, SqlParams>[] = [];
  const repetitions = new Map<string, number>();
  for (const [index, params] of all.entries()) {
    const key = keyTextOf(params);
    const batch = repetitions.get(key) ?? 0;
    repetitions.set(key, batch + 1);
    batches[batch] ??= new Map();
    batches[batch].set(index, params);
  }
  return batches;
}
