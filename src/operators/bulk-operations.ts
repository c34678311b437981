import { sleep } from "../base/async.js";
import { ArgumentRangeError } from "../errors.js";
import { refuseUnknown } from "../queue/arguments.js";
import type { BulkAction, DeadFilter, DeadLetters, Operation } from "../queue/operators.js";
import type { CallOptions } from "../queue/work-store.js";
import { deadConditions } from "../sql/reads.js";

/** Which dead messages are replayed. */
export interface ReplayDeadOptions extends CallOptions {
  /** Who does it: a person or a job. It is recorded. */
  readonly by: string;
  /** As fast as the database allows by default. */
  readonly ratePerSecond?: number | undefined;
  /** Counts, and changes nothing. */
  readonly dryRun?: boolean | undefined;
  /** Called after each batch. */
  readonly onProgress?: ((operation: Operation) => void) | undefined;
  /** The id of an operation that was interrupted: it goes on where it was, with its own filter. `by` is recorded as who resumed it. */
  readonly resume?: string | undefined;
}

/** What a replay of many messages did. */
export interface ReplayDeadResult {
  readonly matched: number;
  readonly done: number;
  /** Null after a dry run. */
  readonly operation: Operation | null;
}

type Store = Pick<DeadLetters<never>, "countDead" | "startOperation" | "continueOperation">;

const maxBatchSize = 200;
const known = ["by", "ratePerSecond", "dryRun", "onProgress", "signal", "resume"];

/**
 * Replays the dead messages that match. A record is made first, and each batch moves it on in its own transaction: a call that
 * is killed half-way can be resumed, and replays each message once. Messages that die meanwhile are not replayed.
 *
 * @example
 * await replayDead(operatorsOf(inbox), { topic: "stripe.invoice.paid" }, { by: "alice", ratePerSecond: 50 });
 */
export const replayDead = (store: Store, filter: DeadFilter, options: ReplayDeadOptions) =>
  overDead(store, "replay", filter, options);

/** Deletes the dead messages that match, as `replayDead` does. */
export const discardDead = (store: Store, filter: DeadFilter, options: ReplayDeadOptions) =>
  overDead(store, "discard", filter, options);

/** Moves the dead messages that match into the archive, as `replayDead` does. */
export const archiveDead = (store: Store, filter: DeadFilter, options: ReplayDeadOptions) =>
  overDead(store, "archive", filter, options);

async function overDead(
  store: Store,
  action: BulkAction,
  filter: DeadFilter,
  options: ReplayDeadOptions,
): Promise<ReplayDeadResult> {
  refuseUnknown(options, known, `${action}Dead`);
  const { by, dryRun, signal, resume } = options;
  paceOf(options.ratePerSecond);
  if (dryRun)
    return {
      matched: await store.countDead({ ...deadConditions(filter), signal }),
      done: 0,
      operation: null,
    };
  if (resume !== undefined) return finishOperation(store, action, resume, { ...options, resumedBy: by });
  const started = await store.startOperation(action, filter, { by, signal });
  options.onProgress?.(started);
  return finishOperation(store, action, started.id, options);
}

interface FinishOptions extends Pick<ReplayDeadOptions, "ratePerSecond" | "onProgress" | "signal"> {
  /** Who goes on with an operation that was interrupted. */
  readonly resumedBy?: string | undefined;
}

/** Does what is left of an operation, batch by batch. */
export async function finishOperation(
  store: Pick<Store, "continueOperation">,
  action: BulkAction,
  id: string,
  { ratePerSecond, onProgress, signal, resumedBy }: FinishOptions,
): Promise<ReplayDeadResult> {
  const { batchSize, waitMs } = paceOf(ratePerSecond);
  for (let by = resumedBy; ; by = undefined) {
    const operation = await store.continueOperation(id, { batchSize, action, resumedBy: by, signal });
    onProgress?.(operation);
    const { matched, done, endedAt } = operation;
    if (endedAt !== null) return { matched, done, operation };
    await sleep(waitMs, signal);
  }
}

/** Batches of a tenth of a second's worth, and the wait after each. */
function paceOf(ratePerSecond: number | undefined): { readonly batchSize: number; readonly waitMs: number } {
  if (ratePerSecond === undefined) return { batchSize: maxBatchSize, waitMs: 0 };
  if (typeof ratePerSecond !== "number" || !(ratePerSecond > 0 && ratePerSecond <= 1_000_000))
    throw new ArgumentRangeError(
      `ratePerSecond must be more than 0 and at most 1,000,000, not ${String(ratePerSecond)}.`,
    );
  const batchSize = Math.min(maxBatchSize, Math.ceil(ratePerSecond / 10));
  return { batchSize, waitMs: (batchSize / ratePerSecond) * 1_000 };
}
