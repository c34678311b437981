import { isGuid, uuidV7 } from "../base/uuid.js";
import { InvalidArgumentError } from "../errors.js";
import {
  callInTransaction,
  checkCall,
  optionalKey,
  refuseUnknown,
  requireName,
  withPayload,
} from "../queue/arguments.js";
import { contentFields, type OutgoingMessage, type WithData } from "../queue/message.js";
import { checkOutgoing, type OutgoingOf, outgoingSchema, type TopicSchemas } from "../queue/topics.js";
import type { CallOptions, PreparedMessages } from "../queue/work-store.js";
import type { Database, OutboxStatements, Rows } from "../sql/dialect.js";
import type { SqlExecutor, SqlParams } from "../sql/driver.js";
import { withContent, withTrace } from "../sql/message-content.js";
import type { AnyDatabase } from "../sql/native.js";
import type { FilledOutbox, PreparedRows } from "../sql/settle.js";
import { inChunks } from "../sql/statement-runner.js";
import type { QueueParts } from "../sql/store.js";

/** Options of an enqueue. */
export interface EnqueueOptions<Kind extends AnyDatabase = AnyDatabase> extends CallOptions {
  /** The caller's transaction: `fromPg(client)`, `fromMssql(transaction)`, `fromSqlite(db)`, or one of `db.driver`'s. */
  readonly tx?: SqlExecutor<Kind>;
}

/** A message with a natural key. */
export type OnceMessage = OutgoingMessage & { readonly naturalKey: string };

/** What became of a message with a natural key. */
export interface Enqueued {
  /** The message's id; that of the first message with its topic and natural key, when there was one. */
  readonly id: string;
  /** There was one, and nothing was added. */
  readonly existing: boolean;
}

/** Puts messages into an outbox. */
export interface Enqueuing<
  Topics extends TopicSchemas = TopicSchemas,
  Kind extends AnyDatabase = AnyDatabase,
> {
  /**
   * Enqueues in the caller's transaction, or in one of its own. Returns the message's id: where the outbox has the message's
   * natural key, the id of the first message with it.
   */
  enqueue(
    messages: readonly OutgoingOf<Topics>[],
    options?: EnqueueOptions<Kind>,
  ): Promise<readonly string[]>;
  // last, so that the compiler explains a wrong message by it
  enqueue(message: OutgoingOf<Topics>, options?: EnqueueOptions<Kind>): Promise<string>;
  /** The same for messages that all have a natural key. Returns which of them existed. */
  enqueueOnce(
    messages: readonly (OutgoingOf<Topics> & { readonly naturalKey: string })[],
    options?: EnqueueOptions<Kind>,
  ): Promise<readonly Enqueued[]>;
  enqueueOnce(
    message: OutgoingOf<Topics> & { readonly naturalKey: string },
    options?: EnqueueOptions<Kind>,
  ): Promise<Enqueued>;
  /**
   * Checks messages and stores nothing: `ack` enqueues them, as `outgoing` of a message, when it acknowledges that message. They keep
   * the trace context of this call. Their topics must be of `topics`; their data is not checked by the schemas, which may take time.
   */
  prepare(messages: readonly OutgoingOf<Topics>[]): PreparedMessages;
  prepare(message: OutgoingOf<Topics>): PreparedMessages;
}

type Given = WithData<OutgoingMessage> | readonly WithData<OutgoingMessage>[];

export function enqueuing<Topics extends TopicSchemas, Kind extends AnyDatabase>(
  parts: QueueParts<OutboxStatements>,
): Enqueuing<Topics, Kind> {
  const { db, statements, runner, options } = parts;

  const rowsOf = (given: Given): readonly SqlParams[] =>
    [given]
      .flat()
      .map((message) => withPayload(message as WithData<OutgoingMessage>))
      .map((message) => outgoingParams(db, withTrace(message, options.tracing)));

  const insert = async (given: readonly SqlParams[], { tx, signal }: EnqueueOptions): Promise<Rows> => {
    const rows = [...new Set(firstOfEachKey(given))];
    const hasPartitions = rows.some(hasPartitionKey);
    const hasNaturalKeys = rows.some(hasNaturalKey);
    if (rows.length === 1 && !hasPartitions && !hasNaturalKeys)
      return runner.executeIn(tx, statements.enqueue, rows[0]!, { signal });
    const { enqueueOnce, enqueueKeyed, enqueueMany } = statements;
    const statement = hasNaturalKeys ? enqueueOnce : hasPartitions ? enqueueKeyed : enqueueMany;
    const { maxItems } = db.dialect;
    return inChunks(runner, inInsertOrder(rows), { maxItems, tx, call: { signal } }, (within, some) =>
      runner.executeIn(within, statement, { items: JSON.stringify(some) }, { signal }),
    );
  };

  const report = (rows: readonly SqlParams[], found: Rows, transactional: boolean): readonly Enqueued[] => {
    const firsts = firstOfEachKey(rows);
    const existing = rows.some(hasNaturalKey) ? existingIds(found) : noneExisting;
    return rows.map(({ id: own, topic, correlation_id }, index) => {
      const first = firsts[index]!.id as string;
      const id = existing.get(first) ?? first;
      const exists = id !== own;
      options.logger.info("enqueue", {
        topic: topic as string,
        correlationId: correlation_id as string | null,
        id,
        transactional,
        ...(exists ? { existing: true } : {}),
      });
      if (!exists)
        options.metrics?.count("oncebox.enqueued", 1, { queue: options.queue, topic: topic as string });
      return { id, existing: exists };
    });
  };

  const enqueueAll = async (given: Given, call: EnqueueOptions): Promise<readonly Enqueued[]> => {
    if (options.topics !== undefined)
      for (const message of [given].flat())
        await checkOutgoing(options.topics, message as WithData<OutgoingMessage>);
    const rows = rowsOf(given);
    const found = rows.length === 0 ? [] : await insert(rows, call);
    return report(rows, found, call.tx !== undefined);
  };

  const { schema, table } = options;
  const filled: FilledOutbox = {
    db,
    names: db.dialect.names("outbox", schema, table),
    ready: runner.ready,
    inOrder: inInsertOrder,
    insert,
    report,
  };

  const enqueue = async (given: Given, call: EnqueueOptions = {}) => {
    checkCall(call, callInTransaction, "enqueue");
    const enqueued = await enqueueAll(given, call);
    return Array.isArray(given) ? enqueued.map(({ id }) => id) : enqueued[0]!.id;
  };

  const enqueueOnce = async (given: Given, call: EnqueueOptions = {}) => {
    checkCall(call, callInTransaction, "enqueueOnce");
    if ([given].flat().some((message) => (message as OutgoingMessage)?.naturalKey == null))
      throw new InvalidArgumentError("enqueueOnce: a message has no naturalKey. Nothing was enqueued.");
    const enqueued = await enqueueAll(given, call);
    return Array.isArray(given) ? enqueued : enqueued[0]!;
  };

  const prepare = (given: Given): PreparedMessages => {
    for (const message of [given].flat())
      outgoingSchema(options.topics, message as WithData<OutgoingMessage>);
    const rows = rowsOf(given);
    const prepared = { outbox: filled, rows, hasNaturalKeys: rows.some(hasNaturalKey) };
    return prepared satisfies Omit<PreparedRows, symbol> as PreparedRows;
  };

  return { enqueue, enqueueOnce, prepare } as Enqueuing<Topics, Kind>;
}

const noneExisting: ReadonlyMap<string, string> = new Map();

/** The message's own id comes first: a repeatable read may show a deleted message beside the message that took its key over. */
function existingIds(rows: Rows): ReadonlyMap<string, string> {
  const known = new Map<string, string>();
  for (const row of rows) {
    const id = lowerCaseId(row.id);
    if (known.get(id) !== id) known.set(id, lowerCaseId(row.known_id));
  }
  return known;
}

const lowerCaseId = (id: unknown): string => (id as string).toLowerCase();

/** For each row the first one with its topic and natural key: of several in one call, only that one is stored. */
function firstOfEachKey(rows: readonly SqlParams[]): readonly SqlParams[] {
  const firsts = new Map<string, SqlParams>();
  return rows.map((row) => {
    if (!hasNaturalKey(row)) return row;
    const key = JSON.stringify([row.topic, row.natural_key]);
    const first = firsts.get(key);
    if (first === undefined) firsts.set(key, row);
    return first ?? row;
  });
}

const hasNaturalKey = (row: SqlParams): boolean => row.natural_key !== undefined;
const hasPartitionKey = (row: SqlParams): boolean => row.partition_key !== undefined;

/**
 * The messages with natural keys in the order of their keys, the others where they were. Two calls with the same keys then wait
 * for each other instead of deadlocking. Messages with partition keys must keep their order: where that leads to a deadlock, the call
 * is repeated.
 */
function inInsertOrder<Row extends SqlParams>(rows: readonly Row[]): readonly Row[] {
  if (!rows.some(hasNaturalKey) || rows.some(hasPartitionKey)) return rows;
  const keyed = rows.filter(hasNaturalKey).sort(byNaturalKey);
  let next = 0;
  return rows.map((row) => (hasNaturalKey(row) ? keyed[next++]! : row));
}

const byNaturalKey = (a: SqlParams, b: SqlParams): number =>
  compareText(a.topic as string, b.topic as string) ||
  compareText(a.natural_key as string, b.natural_key as string);

const compareText = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

/** `data` has become the payload here. It is listed for whoever misspelt another field. */
const outgoingFields: readonly string[] = ["messageId", "naturalKey", "data", ...contentFields];

/** Checks a message. Its id is new. */
function outgoingParams(db: Database, message: OutgoingMessage): SqlParams {
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
