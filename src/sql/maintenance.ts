import { yieldToEventLoop } from "../base/timers.js";
import { optionalCount, refuseUnknown, requireBatchSize, requireDuration } from "../queue/arguments.js";
import type { QueueMessage } from "../queue/message.js";
import type { PurgeOptions, PurgeResult } from "../queue/work-store.js";
import { reasonOf } from "./dead-letters.js";
import { isTrue, rowNumber } from "./driver.js";
import type { Operations, QueueParts } from "./store.js";
import { defaults } from "./store-options.js";

/** What a timer calls, batch by batch. */
export function maintainOperations<
  Key extends object,
  Message extends QueueMessage & Key,
  State extends string,
>(
  parts: QueueParts<Key, Message, State>,
): Operations<Key, Message, State, "reapExpired" | "purgeDone" | "purgeDead" | "purgeOperations"> {
  const { shape, statements, options, runner, announceDead } = parts;

  const purgeMessages = async (
    name: "purgeDone" | "purgeDead",
    line: "purge" | "purge dead",
    purge: PurgeOptions,
    usualRetentionMs?: number,
  ): Promise<PurgeResult> => {
    refuseUnknown(purge, ["retentionMs", "batchSize", "maxBatches", "after", "signal"], name);
    const limit = checkedBatchSize(purge, defaults.purgeBatchSize);
    const retentionMs = purge.retentionMs ?? usualRetentionMs;
    requireDuration(retentionMs, "retentionMs");
    optionalCount(purge.after, "after", 0);
    const statement = name === "purgeDead" ? statements.purgeDead : statements.purge;
    let purged = 0;
    let after = purge.after ?? 0;
    const more = await inBatches(purge, async () => {
      const params = { limit, retention_ms: retentionMs, after_seq: after };
      const [row] = await runner.execute(statement, params, purge);
      purged += Number(row?.deleted ?? 0);
      after = rowNumber(row?.last_seq ?? after);
      return isTrue(row?.more);
    });
    if (purged > 0) options.logger.info(line, { purged });
    return { purged, more, cursor: more ? after : null };
  };

  return {
    async reapExpired(reap = {}) {
      refuseUnknown(reap, ["batchSize", "maxBatches", "signal"], "reapExpired");
      const limit = checkedBatchSize(reap, defaults.reapBatchSize);
      let reaped = 0;
      let dead = 0;
      const more = await inBatches(reap, async () => {
        const rows = await runner.execute(statements.reap, { limit }, reap);
        const died = rows.filter((row) => row.verdict !== "reaped");
        reaped += rows.filter((row) => row.verdict !== "expired").length;
        dead += died.length;
        for (const row of died) announceDead([shape.keyOf(row)], reasonOf(row.verdict));
        return rows.length >= limit;
      });
      if (reaped + dead > 0) options.logger.info("reap", { reaped, dead });
      return { reaped, dead, more };
    },

    purgeDone: (purge = {}) => purgeMessages("purgeDone", "purge", purge, defaults.retentionMs),

    purgeDead: (purge: PurgeOptions = {}) => purgeMessages("purgeDead", "purge dead", purge),

    async purgeOperations(purge = {}) {
      refuseUnknown(purge, ["retentionMs", "batchSize", "maxBatches", "signal"], "purgeOperations");
      const limit = checkedBatchSize(purge, defaults.purgeBatchSize);
      const retentionMs = purge.retentionMs ?? defaults.operationRetentionMs;
      requireDuration(retentionMs, "retentionMs");
      let purged = 0;
      const more = await inBatches(purge, async () => {
        const params = { limit, retention_ms: retentionMs };
        const [row] = await runner.execute(statements.purgeOperations, params, purge);
        const deleted = Number(row?.deleted ?? 0);
        purged += deleted;
        return deleted >= limit;
      });
      if (purged > 0) options.logger.info("purge operations", { purged });
      return { purged, more };
    },
  };
}

interface Batches {
  readonly batchSize?: number | undefined;
  readonly maxBatches?: number | undefined;
}

function checkedBatchSize({ batchSize, maxBatches }: Batches, usual: number): number {
  const limit = batchSize ?? usual;
  requireBatchSize(limit);
  optionalCount(maxBatches, "maxBatches", 1);
  return limit;
}

/**
 * Runs batches until `runBatch` says that there is no more, or `maxBatches` are done. Returns whether there is more. Between
 * two of them it yields to the event loop: an embedded database would otherwise keep the thread for all of them.
 */
async function inBatches({ maxBatches }: Batches, runBatch: () => Promise<boolean>): Promise<boolean> {
  for (let batch = 1; ; batch++) {
    const more = await runBatch();
    if (more) await yieldToEventLoop();
    if (!more || batch === maxBatches) return more;
  }
}
