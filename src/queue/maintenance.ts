import type { Budget } from "../base/budget.js";
import type { QueueMessage } from "./message.js";
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

const hasTime = (budget: Budget): boolean => !budget.signal.aborted && budget.remainingMs() > reserveMs;

/** Ends expired leases and expired messages in batches, while there is time. */
export async function reapWithin(
  store: Reaping,
  budget: Budget,
  options: Pick<ReapOptions, "batchSize"> = {},
): Promise<MaintenanceResult> {
  let done = 0;
  let dead = 0;
  while (hasTime(budget)) {
    const batch = await store.reapExpired({ ...options, maxBatches: 1, signal: budget.signal });
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
    const batch = await store.purgeDone({ ...options, maxBatches: 1, after, signal: budget.signal });
    done += batch.purged;
    after = batch.cursor ?? undefined;
    if (!batch.more) return { done, dead: 0, more: false };
  }
  return { done, dead: 0, more: true };
}
