import type { Budget } from "../base/async.js";
import { withDeadline } from "../base/async.js";
import { guardedMetrics, type Metrics } from "../base/telemetry.js";
import { inboxPhases, type Phase, type QueueMessage } from "./message.js";
import { agesOf, type Retention } from "./retention.js";
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
export type Purging = Pick<Queue, "purgeDone"> & Partial<Pick<Queue, "purgeDead" | "purgeOperations">>;

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

export interface PurgeWithinOptions extends Pick<PurgeOptions, "batchSize" | "retentionMs" | "retentions"> {
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
  const { retentions = [] } = options;
  const walk = (what: string, runBatch: RunBatch): Promise<boolean> =>
    hasMore(budget, what, runBatch, retentions.length === 0 ? undefined : walkOf(store, what, retentions));
  let more = await walk("A purge", async (call) => {
    const batch = await store.purgeDone({ ...options, ...call, maxBatches: 1 });
    done += batch.purged;
    return batch;
  });
  const usualMs = deadRetentionMs ?? Number.POSITIVE_INFINITY;
  const isAnyDeleted = agesOf(retentions, "deadRetentionMs", usualMs).some(Number.isFinite);
  if (!more && isAnyDeleted && store.purgeDead !== undefined)
    more = await walk("A purge of dead messages", async (call) => {
      const batch = await store.purgeDead!({ ...options, ...call, maxBatches: 1, retentionMs: usualMs });
      dead += batch.purged;
      return batch;
    });
  if (!more && store.purgeOperations !== undefined)
    more = await hasMore(budget, "A purge of operations", ({ signal }) =>
      store.purgeOperations!({ retentionMs: operationRetentionMs, maxBatches: 1, signal }),
    );
  return { done, dead, more };
}

/** How far the purges of a store have come in this process. */
interface Walk {
  after: number | undefined;
  hasEnded: boolean;
  /** When it last began with the first message. */
  beganAt: number;
}

const walks = new WeakMap<object, Map<string, Walk>>();

/** A message that ended late, or that was delivered again, is found so much later at most. */
const wholeWalkMs = 3_600_000;

/**
 * The walk to continue. With several retentions, messages that are kept for long lie before those that are not, and a clean-up
 * that runs every minute would read past all of them each time. It begins where the last one stopped, and once an hour at the beginning.
 */
function walkOf(store: object, what: string, retentions: readonly Retention[]): Walk {
  const known = walks.get(store) ?? new Map<string, Walk>();
  walks.set(store, known);
  const name = `${what} ${JSON.stringify(retentions)}`;
  const last = known.get(name);
  if (last !== undefined && !(last.hasEnded && performance.now() - last.beganAt > wholeWalkMs)) return last;
  const walk = { after: undefined, hasEnded: false, beganAt: performance.now() };
  known.set(name, walk);
  return walk;
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
type RunBatch = (call: Pick<PurgeOptions, "after" | "signal">) => Promise<BatchResult>;

/**
 * Runs batches while there is time and more to do. A database that does not respond must not keep the function past its
 * end.
 */
async function hasMore(
  budget: Budget,
  what: string,
  runBatch: RunBatch,
  walk: Pick<Walk, "after" | "hasEnded"> = { after: undefined, hasEnded: false },
): Promise<boolean> {
  while (!budget.signal.aborted && budget.remainingMs() > reserveMs) {
    const run = (signal: AbortSignal) => runBatch({ after: walk.after, signal });
    const batch = await withDeadline(budget.remainingMs() - returnMs, what, run, budget.signal);
    walk.hasEnded ||= !batch.more;
    if (!batch.more) return false;
    walk.after = batch.cursor ?? undefined;
  }
  return true;
}

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
