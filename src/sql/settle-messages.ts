import { requireList } from "../queue/arguments.js";
import type { QueueMessage } from "../queue/message.js";
import type { AckOptions, Settlement } from "../queue/work-store.js";
import type { Rows } from "./dialect.js";
import type { SqlExecutor, SqlParams, SqlStatement } from "./driver.js";
import { inChunks } from "./in-chunks.js";
import { isTrue } from "./is-true.js";
import type { QueueParts } from "./queue-parts.js";
import { rowNumber } from "./row-number.js";

export interface SettleOptions<Key> {
  /** For logs. */
  readonly verb: string;
  readonly statement: SqlStatement;
  readonly params: SqlParams;
  /** What the statement gets of each message in `:items`; its row number by default. */
  readonly itemOf?: (message: Key, seq: number) => unknown;
}

export type SettleMessages<Key> = (
  messages: readonly Key[],
  call: AckOptions<SqlExecutor>,
  options: SettleOptions<Key>,
) => Promise<Settlement<Key>>;

/** Runs a statement on the state rows of messages, and tells which of them it changed. See docs/decisions/0003. */
export function settleMessages<Key extends object, Message extends QueueMessage & Key, State extends string>({
  shape,
  statements,
  options: { logger },
  runner,
  db,
}: QueueParts<Key, Message, State>): SettleMessages<Key> {
  /** By row number, ascending, each message once. A claimed message brings its row number; a plain key is looked up. */
  const byRowNumber = async (
    messages: readonly Key[],
    call: AckOptions<SqlExecutor>,
  ): Promise<ReadonlyMap<number, Key>> => {
    const bySeq = new Map<number, Key>();
    const unknown = new Map<string, Key>();
    for (const message of messages) {
      const seq = seqOf(message);
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
  };

  const settlementOf = (
    messages: readonly Key[],
    bySeq: ReadonlyMap<number, Key>,
    rows: Rows,
  ): Settlement<Key> => {
    const settled = changedSeqs(rows, bySeq);
    const changed = [...bySeq].filter(([seq]) => settled.has(seq)).map(([, message]) => message);
    const dead = rows.filter((row) => isTrue(row.dead)).map((row) => bySeq.get(rowNumber(row.seq))!);
    if (changed.length === messages.length) return { changed, dead, lost: [] };
    const lost = new Map(messages.map((message) => [shape.keyText(message), message]));
    for (const message of changed) lost.delete(shape.keyText(message));
    return { changed, dead, lost: [...lost.values()] };
  };

  return async (messages, call, { verb, statement, params, itemOf }) => {
    requireList(messages, "messages");
    if (messages.length === 0) return { changed: [], lost: [], dead: [] };
    const bySeq = await byRowNumber(messages, call);
    const items = itemOf === undefined ? [...bySeq.keys()] : [...bySeq].map(([seq, key]) => itemOf(key, seq));
    const send = (tx: SqlExecutor | undefined, some: readonly unknown[]) =>
      runner.executeIn(tx, statement, { ...params, items: JSON.stringify(some), count: some.length }, call);
    const { mostItems } = db.dialect;
    const rows =
      items.length === 0 ? [] : await inChunks(runner, items, { mostItems, tx: call.tx, call }, send);
    const result = settlementOf(messages, bySeq, rows);
    const { changed, lost, dead } = result;
    logger.debug(verb, { changed: changed.length, lost: lost.length, dead: dead.length });
    if (lost.length > 0 && "owner" in params)
      logger.warn(`${verb}: no longer held by this owner`, { lost: lost.length });
    return result;
  };
}

/** A row for each message that changed, or one row: `all_changed`, and `seqs` of the changed messages when not all changed. */
function changedSeqs(rows: Rows, bySeq: ReadonlyMap<number, unknown>): { has(seq: number): boolean } {
  const [first] = rows;
  if (first?.all_changed === undefined) return new Set(rows.map((row) => rowNumber(row.seq)));
  if (isTrue(first.all_changed)) return bySeq;
  return new Set(((first.seqs as readonly unknown[] | null) ?? []).map(rowNumber));
}

const seqOf = (message: object): unknown => (message as { seq?: unknown } | null)?.seq;
