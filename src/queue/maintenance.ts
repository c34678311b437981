import type { Budget } from "../base/budget.js";
import type { QueueMessage } from "./message.js";
import { withDeadline } from "./store-deadline.js";
import type { PurgeOptions, ReapOptions, WorkStore } from "./work-store.js";

type Reaping = Pick<WorkStore<never, QueueMessage, string>, "reapExpired">;
type Purging = Pick<WorkStore<never, QueueMessage, string>, "purgeDone">;

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

/** Ends expired leases and expired messages in batches, while there is time. */
export async function reapWithin(
  store: Reaping,
  budget: Budget,
  options: Pick<ReapOptions, "batchSize"> = {},
): Promise<MaintenanceResult> {
  let done = 0;
  let dead = 0;
  while (hasTime(budget)) {
    const batch = await inTime(budget, "A reap", (signal) =>
      store.reapExpired({ ...options, maxBatches: 1, signal }),
    );
    done += batch.reaped;
    dead += batch.dead;
    if (!batch.more) return { done, dead, more: false };
  }
  return { done, dead, more: true };
}

/** Deletes messages that were done before the retention, in batches, while there is time. */
export async function purgeWithin(
  store: Purging,
  budget: Budget,
  options: Pick<PurgeOptions, "batchSize" | "retentionMs"> = {},
): Promise<MaintenanceResult> {
  let done = 0;
  let after: number | undefined;
  while (hasTime(budget)) {
    const batch = await inTime(budget, "A purge", (signal) =>
      store.purgeDone({ ...options, maxBatches: 1, after, signal }),
    );
    done += batch.purged;
    after = batch.cursor ?? undefined;
    if (!batch.more) return { done, dead: 0, more: false };
  }
  return { done, dead: 0, more: true };
}
