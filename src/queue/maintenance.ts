import type { Budget } from "../base/budget.js";
import { guardedMetrics, type Metrics } from "../base/telemetry.js";
import { withDeadline } from "../base/timers.js";
import { inboxPhases, type Phase, type QueueMessage } from "./message.js";
import { longestMs } from "./retry-policy.js";
import type {
  CallOptions,
  PurgeOptions,
  PurgeResult,
  QueueStats,
  ReapOptions,
  WorkStore,
} from "./work-store.js";

type Queue = WorkStore<never, QueueMessage, string>;
/** A queue, or the keys of a service, which has no records of operations. */
type Purging = Pick<Queue, "purgeDone"> & Partial<Pick<Queue, "purgeDead" | "purgeOperations">>;

/** What a reap or a clean-up of one queue did. */
export interface MaintenanceResult {
  /** Leases that were ended, or done messages that were deleted. */
  readonly done: number;
  /** Messages that became dead, or dead messages that were deleted. */
  readonly dead: number;
  /** The time was used up before the work was. The next run continues. */
  readonly more: boolean;
}

/** Ends expired leases and expired messages in batches, while there is time. */
export async function reapWithin(
  store: Pick<Queue, "reapExpired">,
  budget: Budget,
  options: Pick<ReapOptions, "batchSize"> = {},
): Promise<MaintenanceResult> {
  let done = 0;
  let dead = 0;
  const more = await hasMore(budget, "A reap", async ({ signal }) => {
    const batch = await store.reapExpired({ ...options, maxBatches: 1, signal });
    done += batch.reaped;
    dead += batch.dead;
    return batch;
  });
  return { done, dead, more };
}

export interface PurgeWithinOptions extends Pick<PurgeOptions, "batchSize" | "retentionMs"> {
  /** Messages that died within this time are kept. By default dead messages are kept for ever. */
  readonly deadRetentionMs?: number | undefined;
  /** Records of operations that ended within this time are kept: 90 days by default. */
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
  let done = 0;
  let dead = 0;
  let more = await hasMore(budget, "A purge", async (call) => {
    const batch = await store.purgeDone({ ...options, ...call, maxBatches: 1 });
    done += batch.purged;
    return batch;
  });
  if (!more && deadRetentionMs !== undefined && store.purgeDead !== undefined)
    more = await hasMore(budget, "A purge of dead messages", async (call) => {
      const batch = await store.purgeDead!({
        ...options,
        ...call,
        maxBatches: 1,
        retentionMs: deadRetentionMs,
      });
      dead += batch.purged;
      return batch;
    });
  if (!more && store.purgeOperations !== undefined)
    more = await hasMore(budget, "A purge of operations", ({ signal }) =>
      store.purgeOperations!({ retentionMs: operationRetentionMs, maxBatches: 1, signal }),
    );
  return { done, dead, more };
}

/** Reports Failed messages of an outbox that have expired, in batches, while there is time. */
export async function expireWithin(
  store: {
    expireFailed(options: CallOptions): Promise<{ readonly expired: number; readonly more: boolean }>;
  },
  budget: Budget,
): Promise<MaintenanceResult> {
  let done = 0;
  const more = await hasMore(budget, "An expiry", async ({ signal }) => {
    const batch = await store.expireFailed({ signal });
    done += batch.expired;
    return batch;
  });
  return { done, dead: 0, more };
}

/** No batch starts with less time than this left. */
const reserveMs = 500;
/** The time that the function needs to return its result. */
const returnMs = 50;

type BatchResult = Pick<PurgeResult, "more"> & Partial<Pick<PurgeResult, "cursor">>;

/**
 * Runs batches while there is time and more to do. A database that does not respond must not keep the function past its
 * end.
 */
async function hasMore(
  budget: Budget,
  what: string,
  runBatch: (call: Pick<PurgeOptions, "after" | "signal">) => Promise<BatchResult>,
): Promise<boolean> {
  let after: number | undefined;
  while (!budget.signal.aborted && budget.remainingMs() > reserveMs) {
    const run = (signal: AbortSignal) => runBatch({ after, signal });
    const batch = await withDeadline(budget.remainingMs() - returnMs, what, run, budget.signal);
    if (!batch.more) return false;
    after = batch.cursor ?? undefined;
  }
  return true;
}

const dayMs = 24 * 60 * 60 * 1_000;

/** Below a day it is more likely a mistake in the unit than a wish, and what is deleted is gone. */
export const deadRetentionDays = { least: 1, most: longestMs / dayMs } as const;

export const isDeadRetention = (ms: unknown): ms is number =>
  typeof ms === "number" && ms >= deadRetentionDays.least * dayMs && ms <= deadRetentionDays.most * dayMs;

export const deadRetentionRule = `a number of milliseconds from ${dayMs} (${deadRetentionDays.least} day) to ${longestMs} (${deadRetentionDays.most} days); leave it out to keep dead messages`;

export const daysToMs = (days: number): number => days * dayMs;

/** The part of an inbox or outbox that is measured. */
export interface MeasuredQueue {
  readonly id: string;
  readonly queue?: string;
  stats(options?: CallOptions): Promise<QueueStats<string>>;
  oldestDueAgeMs(options?: CallOptions): Promise<number | null>;
}

/**
 * Writes the gauges of a queue: its due messages, the age of its oldest due message, and its messages by phase. It counts all messages, Done ones too. The reaper of an app does it; call it once a minute in a process without one.
 *
 * @example
 * setInterval(() => measureQueue(outbox, metrics).catch(report), 60_000);
 */
export async function measureQueue(
  store: MeasuredQueue,
  metrics: Metrics,
  call: CallOptions = {},
): Promise<void> {
  const { gauge } = guardedMetrics(metrics);
  const queue = queueName(store);
  const { counts, phases, due, oldestDueAgeMs } = await store.stats(call);
  gauge("oncebox.queue.due", due, { queue });
  gauge("oncebox.queue.oldest_due_age", oldestDueAgeMs ?? 0, { queue });
  for (const [state, messages] of Object.entries(phases))
    if ("Seen" in counts || !inboxPhases.includes(state as Phase))
      gauge("oncebox.queue.messages", messages, { queue, state });
}

/** In metrics and traces. */
export const queueName = ({ queue, id }: Pick<MeasuredQueue, "queue" | "id">): string => queue ?? id;
