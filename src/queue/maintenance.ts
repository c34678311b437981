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

type Reaping = Pick<Queue, "reapExpired">;
type Queue = WorkStore<never, QueueMessage, string>;
/** A queue, or the keys of a service, which has no records of operations. */
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

/** Reports Failed messages that have expired, in batches, while there is time. */
export const expireWithin = (store: Expiring, budget: Budget): Promise<MaintenanceResult> =>
  batches(budget, "An expiry", async (signal) => {
    const { expired, more } = await store.expireFailed({ signal });
    return { done: expired, dead: 0, more };
  });

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
