import { requireList } from "../queue/arguments.js";
import type { AckOptions, AnyKey, Settlement } from "../queue/work-store.js";
import type { Rows } from "./dialect.js";
import { isTrue, rowNumber, type SqlExecutor, type SqlParams, type SqlStatement } from "./driver.js";
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
export type Send = (tx: SqlExecutor | undefined) => Promise<Rows>;

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
  const changed = [...bySeq].filter(([seq]) => settled.has(seq)).map(([, message]) => message);
  const dead = rows.filter((row) => isTrue(row.dead)).map((row) => bySeq.get(rowNumber(row.seq))!);
  if (changed.length === messages.length) return { changed, dead, lost: [] };
  const lost = new Map(messages.map((message) => [shape.keyText(message), message]));
  for (const message of changed) lost.delete(shape.keyText(message));
  return { changed, dead, lost: [...lost.values()] };
}

/** A row for each message that changed, or one row: `all_changed`, and `seqs` of the changed messages when not all changed. */
export function changedSeqs(rows: Rows, bySeq: ReadonlyMap<number, unknown>): { has(seq: number): boolean } {
  const [first] = rows;
  if (first?.all_changed === undefined) return new Set(rows.map((row) => rowNumber(row.seq)));
  if (isTrue(first.all_changed)) return bySeq;
  return new Set(((first.seqs as readonly unknown[] | null) ?? []).map(rowNumber));
}
