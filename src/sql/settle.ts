import { InvalidArgumentError } from "../errors.js";
import { requireList } from "../queue/arguments.js";
import type {
  Acknowledgement,
  AckOptions,
  AnyKey,
  CallOptions,
  PreparedMessages,
  Settlement,
} from "../queue/work-store.js";
import { type Database, originalOf, type Rows } from "./dialect.js";
import { isTrue, rowNumber, type SqlExecutor, type SqlParams, type SqlStatement } from "./driver.js";
import type { QueueNames } from "./names.js";
import { inChunks } from "./statement-runner.js";
import type { QueueParts } from "./store.js";

type Keys = readonly AnyKey[];

interface SettleOptions {
  /** For logs. */
  readonly verb: string;
  readonly statement: SqlStatement;
  readonly params: SqlParams;
  /** What the statement gets of each message in `:items`; its row number by default. */
  readonly itemOf?: (message: AnyKey, seq: number) => unknown;
  /** Sends more than the statement: what an acknowledgement enqueues. */
  readonly sendWith?: ((bySeq: ReadonlyMap<number, AnyKey>, send: Send) => Promise<Rows>) | undefined;
}

/** Sends the statement, in several parts where the messages are many. */
type Send = (tx: SqlExecutor | undefined) => Promise<Rows>;

/** Runs a statement on the state rows of messages, and returns which of them it changed. See docs/decisions/0003. */
export async function settle(
  parts: QueueParts,
  messages: Keys,
  call: AckOptions<SqlExecutor>,
  { verb, statement, params, itemOf, sendWith }: SettleOptions,
): Promise<Settlement<AnyKey>> {
  requireList(messages, "messages");
  if (messages.length === 0) return { changed: [], lost: [], dead: [] };
  const { db, runner, options } = parts;
  const bySeq = await byRowNumber(parts, messages, call);
  const items = itemOf === undefined ? [...bySeq.keys()] : [...bySeq].map(([seq, key]) => itemOf(key, seq));
  const sendSome = (tx: SqlExecutor | undefined, some: readonly unknown[]) =>
    runner.executeIn(tx, statement, { ...params, items: JSON.stringify(some), count: some.length }, call);
  const { maxItems } = db.dialect;
  const send: Send = (tx) => inChunks(runner, items, { maxItems, tx, call }, sendSome);
  const sent = () => (sendWith === undefined ? send(call.tx) : sendWith(bySeq, send));
  const rows = items.length === 0 ? [] : await sent();
  const result = settlementOf(parts, messages, bySeq, rows);
  const { changed, lost, dead } = result;
  options.logger.debug(verb, { changed: changed.length, lost: lost.length, dead: dead.length });
  if (lost.length > 0 && "owner" in params)
    options.logger.warn(`${verb}: no longer held by this owner`, { lost: lost.length });
  return result;
}

/** By row number, ascending, each message once. A claimed message brings its row number; a plain key is looked up. */
async function byRowNumber(
  { shape, statements, runner }: QueueParts,
  messages: Keys,
  call: AckOptions<SqlExecutor>,
): Promise<ReadonlyMap<number, AnyKey>> {
  const bySeq = new Map<number, AnyKey>();
  const unknown = new Map<string, AnyKey>();
  for (const message of messages) {
    const seq = (message as { seq?: unknown } | null)?.seq;
    if (typeof seq === "number") bySeq.set(seq, message);
    else unknown.set(shape.keyText(shape.key(message)), message);
  }
  if (unknown.size > 0) {
    const items = JSON.stringify([...unknown.values()].map(shape.keyParams));
    for (const row of await runner.executeIn(call.tx, statements.resolve, { items }, call)) {
      const seq = rowNumber(row.seq);
      if (!bySeq.has(seq)) bySeq.set(seq, unknown.get(shape.keyText(shape.keyOf(row)))!);
    }
  }
  return new Map([...bySeq].sort(([a], [b]) => a - b));
}

function settlementOf(
  { shape }: QueueParts,
  messages: Keys,
  bySeq: ReadonlyMap<number, AnyKey>,
  rows: Rows,
): Settlement<AnyKey> {
  const settled = changedSeqs(rows, bySeq);
  const changed: AnyKey[] = [];
  for (const [seq, message] of bySeq) if (settled.has(seq)) changed.push(message);
  const dead = rows.filter((row) => isTrue(row.dead)).map((row) => bySeq.get(rowNumber(row.seq))!);
  if (changed.length === messages.length) return { changed, dead, lost: [] };
  const lost = new Map(messages.map((message) => [shape.keyText(message), message]));
  for (const message of changed) lost.delete(shape.keyText(message));
  return { changed, dead, lost: [...lost.values()] };
}

/**
 * A row for each message that changed, or one row: `all_changed`, and `seqs` of the changed messages when not all changed, as
 * a list or as JSON.
 */
function changedSeqs(rows: Rows, bySeq: ReadonlyMap<number, unknown>): { has(seq: number): boolean } {
  const [first] = rows;
  if (first?.all_changed === undefined) return new Set(rows.map((row) => rowNumber(row.seq)));
  if (isTrue(first.all_changed)) return bySeq;
  const seqs: unknown = typeof first.seqs === "string" ? JSON.parse(first.seqs) : first.seqs;
  return new Set(((seqs as readonly unknown[] | null) ?? []).map(rowNumber));
}

/** What an acknowledgement needs of the outbox that it fills. */
export interface FilledOutbox {
  readonly db: Database;
  readonly names: QueueNames;
  /** Deploys the schema where the outbox's options ask for it. */
  ready(call: CallOptions): Promise<void>;
  /** The order in which they are inserted. */
  inOrder<Row extends SqlParams>(rows: readonly Row[]): readonly Row[];
  /** → id, known_id, as of `enqueueOnce` */
  insert(rows: readonly SqlParams[], call: CallOptions & { readonly tx: SqlExecutor }): Promise<Rows>;
  /** Logs and counts what was inserted. */
  report(rows: readonly SqlParams[], found: Rows, isTransactional: boolean): void;
}

/** What `outbox.prepare` makes. */
export interface PreparedRows extends PreparedMessages {
  readonly outbox: FilledOutbox;
  readonly rows: readonly SqlParams[];
}

/** A message to enqueue, with the row number of the message that was handled. */
type OutgoingRow = SqlParams & { readonly handled: number };

/**
 * Sends an acknowledgement that also enqueues: only what belongs to messages that the owner still held, in one transaction, and
 * nearly always in one round trip. When its response is lost it may be sent again: the owner holds nothing then, and nothing is
 * enqueued. Undefined: there is nothing to enqueue.
 */
export function enqueueWith(
  parts: QueueParts,
  acknowledgements: readonly Acknowledgement<AnyKey>[],
  params: SqlParams,
  call: AckOptions<SqlExecutor>,
): ((bySeq: ReadonlyMap<number, AnyKey>, send: Send) => Promise<Rows>) | undefined {
  const prepared = acknowledgements.flatMap(({ outgoing }) => (outgoing as PreparedRows | undefined) ?? []);
  if (prepared.every(({ rows }) => rows.length === 0)) return undefined;
  const outbox = outboxOf(parts, prepared);
  return async (bySeq, send) => {
    const rows = outbox.inOrder(outgoingRows(acknowledgements, bySeq));
    if (call.tx === undefined) await outbox.ready(call);
    const statement = oneCall(parts, outbox, bySeq, rows);
    const sent = await (statement === undefined
      ? inTransaction({ parts, outbox, rows, call }, bySeq, send)
      : atOnce({ parts, outbox, rows, call }, bySeq, statement, params));
    const changed = changedSeqs(sent.acked, bySeq);
    const stored = rows.filter(({ handled }) => changed.has(handled));
    outbox.report(stored, sent.found, call.tx !== undefined);
    return sent.acked;
  };
}

function outboxOf(parts: QueueParts, prepared: readonly PreparedRows[]): FilledOutbox {
  const { outbox } = prepared[0]!;
  if (prepared.some((one) => one.outbox !== outbox))
    throw new InvalidArgumentError(
      "ack: the outgoing messages were prepared by several outboxes. Acknowledge those of one outbox at a time.",
    );
  if (outbox !== undefined && originalOf(outbox.db) === originalOf(parts.db)) return outbox;
  throw new InvalidArgumentError(
    "ack: outgoing must be what prepare of an outbox on the same database returns: one transaction holds both.",
  );
}

function outgoingRows(
  acknowledgements: readonly Acknowledgement<AnyKey>[],
  bySeq: ReadonlyMap<number, AnyKey>,
): readonly OutgoingRow[] {
  const numbers = new Map([...bySeq].map(([seq, message]) => [message, seq]));
  return acknowledgements.flatMap(({ message, outgoing }) => {
    const handled = numbers.get(message);
    if (outgoing === undefined || handled === undefined) return []; // there is no such message, or it was given twice
    return (outgoing as PreparedRows).rows.map((row) => ({ handled, ...row }));
  });
}

interface Sending {
  readonly parts: QueueParts;
  readonly outbox: FilledOutbox;
  readonly rows: readonly OutgoingRow[];
  readonly call: AckOptions<SqlExecutor>;
}

interface Sent {
  readonly acked: Rows;
  readonly found: Rows;
}

async function atOnce(
  { parts, rows, call }: Sending,
  bySeq: ReadonlyMap<number, AnyKey>,
  statement: SqlStatement,
  params: SqlParams,
): Promise<Sent> {
  const all = {
    ...params,
    items: JSON.stringify([...bySeq.keys()]),
    count: bySeq.size,
    outgoing: JSON.stringify(rows),
    once: rows.some((row) => row.natural_key !== undefined),
    keyed: rows.some((row) => row.partition_key !== undefined),
  };
  const returned = await parts.runner.executeIn(call.tx, statement, all, call);
  return {
    acked: returned.filter((row) => row.seq !== null),
    found: returned.filter((row) => row.known_id !== null),
  };
}

async function inTransaction(
  { parts, outbox, rows, call }: Sending,
  bySeq: ReadonlyMap<number, AnyKey>,
  send: Send,
): Promise<Sent> {
  const both = async (tx: SqlExecutor): Promise<Sent> => {
    const acked = await send(tx);
    const changed = changedSeqs(acked, bySeq);
    const kept = rows.filter(({ handled }) => changed.has(handled));
    const found = kept.length === 0 ? [] : await outbox.insert(kept, { tx, signal: call.signal });
    return { acked, found };
  };
  return call.tx === undefined ? parts.runner.atomically(both, call) : both(call.tx);
}

/**
 * The statement that does both in one call. Undefined where the database runs in this process, for more messages than one statement
 * takes, and when two of them have the same natural key: which one is the first depends on whose acknowledgement counts.
 */
function oneCall(
  parts: QueueParts,
  outbox: FilledOutbox,
  bySeq: ReadonlyMap<number, AnyKey>,
  rows: readonly OutgoingRow[],
): SqlStatement | undefined {
  const { maxItems = Number.POSITIVE_INFINITY } = parts.db.dialect;
  if (Math.max(bySeq.size, rows.length) > maxItems || hasRepeatedKeys(rows)) return undefined;
  return statementOf(parts, outbox);
}

function hasRepeatedKeys(rows: readonly OutgoingRow[]): boolean {
  const keyed = rows.filter((row) => row.natural_key !== undefined);
  return new Set(keyed.map((row) => JSON.stringify([row.topic, row.natural_key]))).size < keyed.length;
}

const statements = new WeakMap<QueueParts, Map<FilledOutbox, SqlStatement | undefined>>();

function statementOf(parts: QueueParts, outbox: FilledOutbox): SqlStatement | undefined {
  const ofQueue = statements.get(parts) ?? new Map<FilledOutbox, SqlStatement | undefined>();
  statements.set(parts, ofQueue);
  if (!ofQueue.has(outbox)) {
    const { dialect } = parts.db;
    const names = dialect.names(parts.kind, parts.options.schema, parts.options.table);
    ofQueue.set(outbox, dialect.ackAndEnqueue?.(names, outbox.names));
  }
  return ofQueue.get(outbox);
}
