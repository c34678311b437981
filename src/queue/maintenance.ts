import type { Budget } from "../base/budget.js";
import type { QueueMessage } from "./message.js";
import { withDeadline } from "./store-deadline.js";
import type { CallOptions, PurgeOptions, ReapOptions, WorkStore } from "./work-store.js";

type Reaping = Pick<Queue, "reapExpired">;
type Queue = WorkStore<never, QueueMessage, string>;
/** A queue, or the keys of a service, which has no operations. */
type Purging = Pick<Queue, "purgeDone"> & Partial<Pick<Queue, "purgeOperations">>;
/** Of an outbox. */
interface Expiring {
  expireFailed(options: CallOptions): Promise<{ readonly expired: number; readonly more: boolean }>;
}

export interface MaintenanceResult {
  readonly done: number;
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
  /** Records of operators' operations that ended within this time are kept: 90 days by default. */
  readonly operationRetentionMs?: number | undefined;
}

/**
 * Deletes messages that were done before the retention, in batches, while there is time; and records of operations after
 * theirs. `done` counts the messages.
 */
export async function purgeWithin(
  store: Purging,
  budget: Budget,
  { operationRetentionMs, ...options }: PurgeWithinOptions = {},
): Promise<MaintenanceResult> {
  let after: number | undefined;
  const messages = await batches(budget, "A purge", async (signal) => {
    const { purged, more, cursor } = await store.purgeDone({ ...options, maxBatches: 1, after, signal });
    after = cursor ?? undefined;
    return { done: purged, dead: 0, more };
  });
  if (messages.more || store.purgeOperations === undefined) return messages;
  const records = await batches(budget, "A purge of operations", async (signal) => {
    const purge = { retentionMs: operationRetentionMs, maxBatches: 1, signal };
    const { more } = await store.purgeOperations!(purge);
    return { done: 0, dead: 0, more };
  });
  return { ...messages, more: records.more };
}

/** Tells of Failed messages that have expired, in batches, while there is time. */
export const expireWithin = (store: Expiring, budget: Budget): Promise<MaintenanceResult> =>
  batches(budget, "An expiry", async (signal) => {
    const { expired, more } = await store.expireFailed({ signal });
    return { done: expired, dead: 0, more };
  });
