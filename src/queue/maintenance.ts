import type { Budget } from "../base/budget.js";
import type { QueueMessage } from "./message.js";
import { withDeadline } from "./store-deadline.js";
import type { CallOptions, PurgeOptions, PurgeResult, ReapOptions, WorkStore } from "./work-store.js";

type Reaping = Pick<Queue, "reapExpired">;
type Queue = WorkStore<never, QueueMessage, string>;
/** A queue, or the keys of a service, which has no operations. */
type Purging = Pick<Queue, "purgeDone"> & Partial<Pick<Queue, "purgeDead" | "purgeOperations">>;
/** Of an outbox. */
interface Expiring {
  expireFailed(options: CallOptions): Promise<{ readonly expired: number; readonly more: boolean }>;
}

export interface MaintenanceResult {
  /** Leases that were ended, or done messages that were deleted. */
  readonly done: number;
  /** Messages that became dead, or dead messages that were deleted. */
  readonly dead: number;
  /** The time was used up before the work was. The next run continues. */
  readonly more: boolean;
}

/** No batch starts with less time than this left. */
const reserveMs = 500;
/** The time that the function needs to return its result. */
const returnMs = 50;

const hasTime = (budget: Budget): boolean => !budget.signal.aborted && budget.remainingMs() > reserveMs;

/** A database that does not respond must not keep the function past its end. */
const inTime = <T>(budget: Budget, what: string, call: (signal: AbortSignal) => Promise<T>): Promise<T> =>
  withDeadline(budget.remainingMs() - returnMs, what, call, budget.signal);

/** Runs batches while there is time and more to do. */
async function batches(
  budget: Budget,
  what: string,
  runBatch: (signal: AbortSignal) => Promise<MaintenanceResult>,
): Promise<MaintenanceResult> {
  let done = 0;
  let dead = 0;
  while (hasTime(budget)) {
    const batch = await inTime(budget, what, runBatch);
    done += batch.done;
    dead += batch.dead;
    if (!batch.more) return { done, dead, more: false };
  }
  return { done, dead, more: true };
}

/** Ends expired leases and expired messages in batches, while there is time. */
export const reapWithin = (
  store: Reaping,
  budget: Budget,
  options: Pick<ReapOptions, "batchSize"> = {},
): Promise<MaintenanceResult> =>
  batches(budget, "A reap", async (signal) => {
    const { reaped, dead, more } = await store.reapExpired({ ...options, maxBatches: 1, signal });
    return { done: reaped, dead, more };
  });

export interface PurgeWithinOptions extends Pick<PurgeOptions, "batchSize" | "retentionMs"> {
  /** Messages that died within this time are kept. By default dead messages are kept for ever. */
  readonly deadRetentionMs?: number | undefined;
  /** Records of operators' operations that ended within this time are kept: 90 days by default. */
  readonly operationRetentionMs?: number | undefined;
}

/**
 * Deletes messages that were done before the retention, in batches, while there is time; dead ones and records of operations
 * after theirs.
 */
export async function purgeWithin(
  store: Purging,
  budget: Budget,
  { deadRetentionMs, operationRetentionMs, ...options }: PurgeWithinOptions = {},
): Promise<MaintenanceResult> {
  const done = await purgeBatches(budget, "A purge", (call) => store.purgeDone({ ...options, ...call }));
  if (done.more) return { done: done.purged, dead: 0, more: true };
  const dead =
    deadRetentionMs === undefined || store.purgeDead === undefined
      ? { purged: 0, more: false }
      : await purgeBatches(budget, "A purge of dead messages", (call) =>
          store.purgeDead!({ ...options, ...call, retentionMs: deadRetentionMs }),
        );
  const messages = { done: done.purged, dead: dead.purged };
  if (dead.more || store.purgeOperations === undefined) return { ...messages, more: dead.more };
  const records = await batches(budget, "A purge of operations", async (signal) => {
    const purge = { retentionMs: operationRetentionMs, maxBatches: 1, signal };
    const { more } = await store.purgeOperations!(purge);
    return { done: 0, dead: 0, more };
  });
  return { ...messages, more: records.more };
}

type PurgeBatch = Pick<PurgeOptions, "maxBatches" | "after" | "signal">;

async function purgeBatches(
  budget: Budget,
  what: string,
  purge: (call: PurgeBatch) => Promise<PurgeResult>,
): Promise<Pick<PurgeResult, "purged" | "more">> {
  let after: number | undefined;
  const { done, more } = await batches(budget, what, async (signal) => {
    const batch = await purge({ maxBatches: 1, after, signal });
    after = batch.cursor ?? undefined;
    return { done: batch.purged, dead: 0, more: batch.more };
  });
  return { purged: done, more };
}

/** Tells of Failed messages that have expired, in batches, while there is time. */
export const expireWithin = (store: Expiring, budget: Budget): Promise<MaintenanceResult> =>
  batches(budget, "An expiry", async (signal) => {
    const { expired, more } = await store.expireFailed({ signal });
    return { done: expired, dead: 0, more };
  });
