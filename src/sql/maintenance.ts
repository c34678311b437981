import { yieldToEventLoop } from "../base/timers.js";
import { optionalCount, refuseUnknown, requireBatchSize, requireDuration } from "../queue/arguments.js";
import type {
  PurgeOperationsOptions,
  PurgeOptions,
  PurgeResult,
  ReapOptions,
  ReapResult,
} from "../queue/work-store.js";
import { announceDead, reasonOf } from "./dead-letters.js";
import { isTrue, rowNumber } from "./driver.js";
import type { QueueParts } from "./store.js";
import { defaults } from "./store-options.js";

export async function reapExpired(parts: QueueParts, call: ReapOptions = {}): Promise<ReapResult> {
  refuseUnknown(call, ["batchSize", "maxBatches", "signal"], "reapExpired");
  const limit = checkedBatchSize(call, defaults.reapBatchSize);
  const { shape, statements, options, runner } = parts;
  let reaped = 0;
  let dead = 0;
  const more = await inBatches(call, async () => {
    const rows = await runner.execute(statements.reap, { limit }, call);
    const died = rows.filter((row) => row.verdict !== "reaped");
    reaped += rows.filter((row) => row.verdict !== "expired").length;
    dead += died.length;
    for (const row of died) announceDead(parts, [shape.keyOf(row)], reasonOf(row.verdict));
    return rows.length >= limit;
  });
  if (reaped + dead > 0) options.logger.info("reap", { reaped, dead });
  return { reaped, dead, more };
}

export const purgeDone = (parts: QueueParts, call: PurgeOptions = {}): Promise<PurgeResult> =>
  purgeMessages(parts, "purgeDone", call, defaults.retentionMs);

export const purgeDead = (parts: QueueParts, call: PurgeOptions = {}): Promise<PurgeResult> =>
  purgeMessages(parts, "purgeDead", call);

async function purgeMessages(
  { statements, options, runner }: QueueParts,
  name: "purgeDone" | "purgeDead",
  call: PurgeOptions,
  usualRetentionMs?: number,
): Promise<PurgeResult> {
  refuseUnknown(call, ["retentionMs", "batchSize", "maxBatches", "after", "signal"], name);
  const limit = checkedBatchSize(call, defaults.purgeBatchSize);
  const retentionMs = call.retentionMs ?? usualRetentionMs;
  requireDuration(retentionMs, "retentionMs");
  optionalCount(call.after, "after", 0);
  const statement = name === "purgeDead" ? statements.purgeDead : statements.purge;
  let purged = 0;
  let after = call.after ?? 0;
  const more = await inBatches(call, async () => {
    const params = { limit, retention_ms: retentionMs, after_seq: after };
    const [row] = await runner.execute(statement, params, call);
    purged += Number(row?.deleted ?? 0);
    after = rowNumber(row?.last_seq ?? after);
    return isTrue(row?.more);
  });
  if (purged > 0) options.logger.info(name === "purgeDead" ? "purge dead" : "purge", { purged });
  return { purged, more, cursor: more ? after : null };
}

export async function purgeOperations(
  { statements, options, runner }: QueueParts,
  call: PurgeOperationsOptions = {},
): Promise<Pick<PurgeResult, "purged" | "more">> {
  refuseUnknown(call, ["retentionMs", "batchSize", "maxBatches", "signal"], "purgeOperations");
  const limit = checkedBatchSize(call, defaults.purgeBatchSize);
  const retentionMs = call.retentionMs ?? defaults.operationRetentionMs;
  requireDuration(retentionMs, "retentionMs");
  let purged = 0;
  const more = await inBatches(call, async () => {
    const params = { limit, retention_ms: retentionMs };
    const [row] = await runner.execute(statements.purgeOperations, params, call);
    const deleted = Number(row?.deleted ?? 0);
    purged += deleted;
    return deleted >= limit;
  });
  if (purged > 0) options.logger.info("purge operations", { purged });
  return { purged, more };
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
