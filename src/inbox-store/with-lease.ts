import { processTimers, sleep, withDeadline, withinTime } from "../base/async.js";
import { type Logger, type LoggerOption, loggerOf, safeReason } from "../base/logger.js";
import { knownByCode, type OnceboxErrorInfo } from "../errors.js";
import { refuseUnknown, requireDuration, requireInterval } from "../queue/arguments.js";
import { LeaseLostError } from "../queue/leases.js";
import { checkAll, defaultLeaseMs, type LeasingInboxStore, type TryBeginOptions } from "./inbox-store.js";

/** Options of work under a lease. */
export interface WithLeaseOptions extends Omit<TryBeginOptions, "leaseId"> {
  /** A third of the lease by default. */
  readonly renewEveryMs?: number | undefined;
  /**
   * How long the work may take: 5 minutes by default. Then its signal aborts and its lease is no longer renewed. Work that
   * goes on until the lease is over is given up.
   */
  readonly timeoutMs?: number | undefined;
  readonly logger?: LoggerOption | undefined;
}

/** The lease that the work holds. */
export interface HeldLease {
  readonly key: string;
  readonly leaseId: string;
  /**
   * Aborts when the lease is lost, with a LeaseLostError; when the time of the work is over, with a WorkTimedOutError; and
   * when the caller's signal does. Stop the work then.
   */
  readonly signal: AbortSignal;
}

/** What became of work under a lease. */
export type LeasedOutcome<T> =
  | { readonly status: "Done"; readonly result: T }
  | { readonly status: "Processed" }
  | { readonly status: "Busy"; readonly expiresAt: Date | null };

/** The work took longer than its time limit. What it had done by then may be repeated: its key was not marked. */
export class WorkTimedOutError extends Error implements OnceboxErrorInfo {
  static readonly code = "ONCEBOX_WORK_TIMED_OUT";
  static {
    knownByCode(WorkTimedOutError);
  }

  readonly code = WorkTimedOutError.code;
  override readonly name = "WorkTimedOutError";
  readonly timeoutMs: number;

  constructor(timeoutMs: number) {
    super(
      `The work took longer than its limit of ${timeoutMs} ms. Pass its signal on to whatever it waits for, or raise timeoutMs.`,
    );
    this.timeoutMs = timeoutMs;
  }
}

/** As the default of a resident worker's handlers. */
export const defaultWorkTimeoutMs = 5 * 60_000;

/** A lease is renewed when a third of it is over, so that there is time to repeat a renewal that failed. */
const renewals = 3;

/**
 * Does work once for a key: takes the lease, renews it while the work runs, and marks the key processed when the work
 * resolves. When it rejects, the key is released, and the error is rethrown. A key that is processed or busy is not worked on.
 * It ends no later than `timeoutMs` and `leaseMs` after the work began, whatever the work does.
 *
 * @throws LeaseLostError when the lease was lost before the key could be marked: another caller may do the work again.
 * @throws WorkTimedOutError when the work went on after its time limit until the lease was over.
 * @example
 * const outcome = await withLease(store, key, async ({ signal }) => sendInvoice(order, { signal }));
 */
export async function withLease<T>(
  store: LeasingInboxStore,
  key: string,
  work: (lease: HeldLease) => T | Promise<T>,
  options: WithLeaseOptions = {},
): Promise<LeasedOutcome<T>> {
  refuseUnknown(options, known, "withLease");
  const { owner, leaseMs = defaultLeaseMs, timeoutMs = defaultWorkTimeoutMs, signal: outer } = options;
  const { renewEveryMs = leaseMs / renewals } = options;
  checkAll("withLease", [
    () => requireDuration(leaseMs, "leaseMs"),
    () => requireInterval(renewEveryMs, "renewEveryMs"),
    () => requireDuration(timeoutMs, "timeoutMs"),
  ]);
  const logger = loggerOf(options.logger);
  const begunAt = performance.now();
  const begun = await store.tryBegin(key, { owner, leaseMs, signal: outer });
  if (begun.status !== "Acquired") return begun;

  const { leaseId } = begun;
  const [losing, timing] = [new AbortController(), new AbortController()];
  const lost = (): void => losing.abort(new LeaseLostError());
  const stopRenewing = keepLease({ store, key, leaseId, leaseMs, begunAt, renewEveryMs, logger, lost });
  const timedOut = (): void => {
    timing.abort(new WorkTimedOutError(timeoutMs));
    void stopRenewing();
  };
  const signal = AbortSignal.any([losing.signal, timing.signal, ...(outer === undefined ? [] : [outer])]);
  let result: T;
  try {
    result = await untilGivenUp(() => work({ key, leaseId, signal }), { timeoutMs, leaseMs, timedOut });
  } catch (error) {
    await stopRenewing();
    // The error of the work is the one to throw. A lease that cannot be released ends by itself.
    if (!losing.signal.aborted)
      await store.release(key, leaseId).catch((failure: unknown) => {
        logger.warn("lease not released", { error: safeReason(failure) });
      });
    throw error;
  }
  await stopRenewing();
  // Also when the lease seems to be lost: the store knows, and marks it only for the lease that holds it.
  const { status } = await store.finish(key, leaseId);
  if (status === "LeaseLost") throw new LeaseLostError();
  return { status: "Done", result };
}

const known = ["owner", "leaseMs", "renewEveryMs", "timeoutMs", "signal", "logger"];

interface WorkLimit {
  readonly timeoutMs: number;
  readonly leaseMs: number;
  /** Called at the time limit. */
  readonly timedOut: () => void;
}

/**
 * Waits for the work until its time limit, and then for as long as its last lease may last: work that listens to its signal
 * ends meanwhile, and nobody else begins it before.
 */
async function untilGivenUp<T>(work: () => T | Promise<T>, { timeoutMs, leaseMs, timedOut }: WorkLimit) {
  const cancel = processTimers.after(timeoutMs, timedOut);
  const running = (async () => work())(); // an error that is thrown before the first await is a rejection, too
  try {
    return await withinTime(timeoutMs + leaseMs, running, () => new WorkTimedOutError(timeoutMs));
  } finally {
    cancel();
  }
}

interface KeptLease {
  readonly store: LeasingInboxStore;
  readonly key: string;
  readonly leaseId: string;
  readonly leaseMs: number;
  /** When the try-begin was sent, by `performance.now()`. */
  readonly begunAt: number;
  readonly renewEveryMs: number;
  readonly logger: Logger;
  /** Called once, when another caller may hold the key. */
  readonly lost: () => void;
}

/**
 * Renews a lease until the returned function is called. The lease counts from the moment the request was sent, on this
 * process's own steady clock: the store's lease ends later than that, so two holders never believe in it at once, whatever
 * their clocks say.
 */
function keepLease(lease: KeptLease): () => Promise<void> {
  const { store, key, leaseId, leaseMs, begunAt, renewEveryMs, logger, lost } = lease;
  const stopping = new AbortController();
  const { signal: stop } = stopping;
  /** After a renewal that failed, the next one comes sooner: a lease of 30 s has 20 s left then. */
  const retryMs = Math.min(renewEveryMs / 4, 1_000);

  const renewWithin = async (ms: number) => {
    const renew = (signal: AbortSignal) => store.renew(key, leaseId, leaseMs, { signal });
    try {
      return (await withDeadline(ms, "The renewal of a lease", renew, stop)).status;
    } catch (error) {
      if (!stop.aborted) logger.warn("lease not renewed", { error: safeReason(error) });
      return "failed";
    }
  };
  const renewUntilStopped = async (): Promise<void> => {
    let endsAt = begunAt + leaseMs;
    let waitMs = renewEveryMs;
    for (;;) {
      await sleep(Math.max(0, Math.min(waitMs, endsAt - performance.now())), stop).catch(() => {});
      if (stop.aborted) return;
      const sentAt = performance.now();
      if (sentAt >= endsAt) return lost();
      const status = await renewWithin(endsAt - sentAt);
      if (stop.aborted) return;
      if (status === "LeaseLost") return lost();
      if (status === "Renewed") endsAt = sentAt + leaseMs;
      waitMs = status === "Renewed" ? renewEveryMs : retryMs;
    }
  };

  const running = renewUntilStopped();
  return async () => {
    stopping.abort();
    await running;
  };
}
