import { yieldToEventLoop } from "../base/wait.js";
import { optionalCount, requireBatchSize } from "../queue/arguments.js";
import type { PurgeOptions, PurgeResult } from "../queue/work-store.js";
import { defaults } from "../sql/defaults.js";
import type { InboxStatements, KeyStatements } from "../sql/dialect.js";
import type { SqlParams } from "../sql/driver.js";
import { isTrue } from "../sql/is-true.js";
import { rowNumber } from "../sql/row-number.js";
import type { StatementRunner } from "../sql/statement-runner.js";

export type PurgeKeysOptions = Omit<PurgeOptions, "retentionMs">;

interface PurgeParts {
  readonly statements: Pick<KeyStatements, "purgeKeys"> & Pick<InboxStatements, "purge">;
  readonly runner: StatementRunner;
  /** The source and the retention. */
  readonly params: SqlParams;
}

/**
 * Deletes keys in batches: first those that were never finished, which an index finds, then the processed ones in the
 * order of their row numbers. Only the second part has a cursor; at 0 both parts run.
 */
export async function purgeKeys(parts: PurgeParts, options: PurgeKeysOptions): Promise<PurgeResult> {
  const limit = options.batchSize ?? defaults.purgeBatchSize;
  requireBatchSize(limit);
  optionalCount(options.maxBatches, "maxBatches", 1);
  optionalCount(options.after, "after", 0);
  const { statements, runner, params } = parts;

  const abandoned = async (): Promise<number> => {
    const [row] = await runner.execute(statements.purgeKeys, { ...params, limit }, options);
    return Number(row?.deleted ?? 0);
  };
  const processed = async (after: number) => {
    const [row] = await runner.execute(statements.purge, { ...params, limit, after_seq: after }, options);
    const next = isTrue(row?.more) ? rowNumber(row?.last_seq ?? after) : null;
    return { deleted: Number(row?.deleted ?? 0), next };
  };

  let purged = 0;
  let cursor: number | null = options.after ?? 0;
  let mayHaveAbandoned = cursor === 0;
  for (let batches = 0; cursor !== null && batches !== options.maxBatches; batches++) {
    if (batches > 0) await yieldToEventLoop();
    if (mayHaveAbandoned) {
      const deleted = await abandoned();
      purged += deleted;
      mayHaveAbandoned = deleted === limit;
      if (mayHaveAbandoned) continue;
    }
    const { deleted, next } = await processed(cursor);
    purged += deleted;
    cursor = next;
  }
  return { purged, more: cursor !== null, cursor };
}
