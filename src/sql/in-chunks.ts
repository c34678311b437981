import type { CallOptions } from "../queue/work-store.js";
import type { Rows } from "./dialect.js";
import type { SqlExecutor } from "./driver.js";
import type { StatementRunner } from "./statement-runner.js";

interface Chunking {
  /** The most items in one statement; undefined where there is no limit. */
  readonly mostItems: number | undefined;
  readonly tx: SqlExecutor | undefined;
  readonly call: CallOptions;
}

/** Calls `run` with all items, or with a part at a time in one transaction: the caller's, or one of its own. */
export async function inChunks<Item>(
  { atomically }: Pick<StatementRunner, "atomically">,
  items: readonly Item[],
  { mostItems = Number.POSITIVE_INFINITY, tx, call }: Chunking,
  run: (tx: SqlExecutor | undefined, items: readonly Item[]) => Promise<Rows>,
): Promise<Rows> {
  if (items.length <= mostItems) return run(tx, items);
  const all = async (within: SqlExecutor): Promise<Rows> => {
    const parts: Rows[] = [];
    for (let from = 0; from < items.length; from += mostItems)
      parts.push(await run(within, items.slice(from, from + mostItems)));
    return parts.flat();
  };
  return tx === undefined ? atomically(all, call) : all(tx);
}
