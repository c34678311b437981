import { yieldToEventLoop } from "../base/async.js";
import { optionalCount, refuseUnknown, requireBatchSize, requireDuration } from "../queue/arguments.js";
import { agesOf, type Retention, requireRetention, requireRetentions } from "../queue/retention.js";
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
  refuseUnknown(call, ["retentionMs", "retentions", "batchSize", "maxBatches", "after", "signal"], name);
  const limit = checkedBatchSize(call, defaults.purgeBatchSize);
  const { retentionMs = usualRetentionMs, retentions = [] } = call;
  requireRetention(retentionMs, "retentionMs");
  requireRetentions(retentions, "retentions");
  optionalCount(call.after, "after", 0);
  const age = name === "purgeDead" ? "deadRetentionMs" : "retentionMs";
  const shortestMs = Math.min(...agesOf(retentions, age, retentionMs));
  if (shortestMs === Number.POSITIVE_INFINITY) return { purged: 0, more: false, cursor: null };
  const rules = retentionRules(retentions, age, retentionMs);
  const statement = name === "purgeDead" ? statements.purgeDead : statements.purge;
  let purged = 0;
  let after = call.after ?? 0;
  const more = await inBatches(call, async () => {
    const params = { limit, rules, shortest_ms: shortestMs, after_seq: after };
    const [row] = await runner.execute(statement, params, call);
    purged += Number(row?.deleted ?? 0);
    after = rowNumber(row?.last_seq ?? after);
    return isTrue(row?.more);
  });
  if (purged > 0) options.logger.info(name === "purgeDead" ? "purge dead" : "purge", { purged });
  return { purged, more, cursor: more ? after : null };
}

/**
 * The retentions of a purge as JSON, in their order. The last one fits every message. A null retention keeps what it fits, and a
 * condition that is not there fits everything.
 */
const retentionRules = (
  retentions: readonly Retention[],
  age: "retentionMs" | "deadRetentionMs",
  usualMs: number,
): string =>
  JSON.stringify(
    [...retentions.filter((retention) => retention[age] !== undefined), { [age]: usualMs }].map(
      ({ topic, type, source, ...ages }: Retention, position) => ({
        position,
        ...pattern("topic", topic),
        ...pattern("type", type),
        source,
        retention_ms: ages[age] === Number.POSITIVE_INFINITY ? null : ages[age],
      }),
    ),
  );

/** A name, or the beginning of names. */
const pattern = (field: "topic" | "type", text: string | undefined) =>
  text?.endsWith("*") ? { [`${field}_prefix`]: text.slice(0, -1) || undefined } : { [field]: text };

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
