import { receiveBatching } from "../inbox/receive-batching.js";
import type { Database, KeyStatements } from "../sql/dialect.js";
import type { SqlParams, SqlRow } from "../sql/driver.js";
import type { StatementRunner } from "../sql/statement-runner.js";

export interface KeyBeginnerOptions {
  readonly db: Database;
  readonly runner: StatementRunner;
  readonly statements: KeyStatements;
  readonly source: string;
}

/** A key to lease: `message_id`, `owner`, `lease_ms` and `headers`. Returns the row of the key. */
type Begin = (item: SqlParams, signal: AbortSignal | undefined) => Promise<SqlRow>;

/**
 * Leases keys. Calls that come while others run share a round trip and a commit, as single receives do. A batch that fails
 * is repeated with the same lease ids, so it finds its own leases.
 */
export function keyBeginner({ db, runner, statements, source }: KeyBeginnerOptions): Begin {
  const { tryBegin, tryBeginMany } = statements;
  const one: Begin = async (item, signal) => {
    const [row] = await runner.execute(tryBegin, { source, ...item }, { signal });
    return row!;
  };
  if (tryBeginMany === undefined) return one;
  return receiveBatching<SqlParams, SqlRow>({
    receiveOne: one,
    async receiveBatch(items, signal) {
      // Sorted by key, two batches with the same keys wait for each other instead of deadlocking.
      const sorted = JSON.stringify([...items].sort(byKey));
      const rows = await runner.execute(tryBeginMany, { source, items: sorted }, { signal });
      const found = new Map(rows.map((row) => [row.message_id, row]));
      return items.map((item) => found.get(item.message_id)!);
    },
    keyOf,
    sizeOf: (item) => keyOf(item).length,
    isOutage: (error) => db.dialect.classify(error) !== "permanent",
  });
}

const keyOf = ({ message_id }: SqlParams): string => message_id as string;

const byKey = (a: SqlParams, b: SqlParams): number => (keyOf(a) < keyOf(b) ? -1 : 1);
