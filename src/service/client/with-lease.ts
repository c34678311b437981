import { type Logger, type LoggerOption, loggerOf } from "../../base/logger.js";
import { safeReason } from "../../base/safe-reason.js";
import { refuseUnknown, requireInterval } from "../../queue/arguments.js";
import { LeaseLostError } from "../../queue/lease-lost-error.js";
import { checkAll } from "../check-all.js";
import { defaultLeaseMs, type LeasingInboxStore, type TryBeginOptions } from "../inbox-store.js";
import { requireLeaseMs } from "../key.js";
import { keepLease } from "./keep-lease.js";

export interface WithLeaseOptions extends Omit<TryBeginOptions, "leaseId"> {
  /** A third of the lease by default. */
  readonly renewEveryMs?: number | undefined;
  readonly logger?: LoggerOption | undefined;
}

/** The lease that the work holds. */
export interface HeldLease {
  readonly key: string;
  readonly leaseId: string;
  /** Aborts when the lease is lost, with a LeaseLostError, and when the caller's signal does. Stop the work then. */
  readonly signal: AbortSignal;
}

export type LeasedOutcome<T> =
  | { readonly status: "Done"; readonly result: T }
  | { readonly status: "Processed" }
  | { readonly status: "Busy"; readonly expiresAt: Date | null };

/** A lease is renewed when a third of it is over, so that there is time to repeat a renewal that failed. */
const renewals = 3;

/**
 * Does work once for a key: takes the lease, renews it while the work runs, and marks the key processed when the work
 * resolves. When it rejects, the key is released, and the error is rethrown. A key that is processed or busy is not worked on.
 *
 * @throws LeaseLostError when the lease was lost before the key could be marked: another caller may do the work again.
 * @example
 * const outcome = await withLease(store, key, async ({ signal }) => sendInvoice(order, { signal }));
 */
export async function withLease<T>(
  store: LeasingInboxStore,
  key: string,
  work: (lease: HeldLease) => T | Promise<T>,
  options: WithLeaseOptions = {},
): Promise<LeasedOutcome<T>> {
  refuseUnknown(options, ["owner", "leaseMs", "renewEveryMs", "signal", "logger"], "withLease");
  const { owner, leaseMs = defaultLeaseMs, signal: outer } = options;
  const { renewEveryMs = leaseMs / renewals } = options;
  checkAll("withLease", [() => requireLeaseMs(leaseMs), () => requireInterval(renewEveryMs, "renewEveryMs")]);
  const logger = loggerOf(options.logger);
  const begunAt = performance.now();
  const begun = await store.tryBegin(key, { owner, leaseMs, signal: outer });
  if (begun.status !== "Acquired") return begun;

  const { leaseId } = begun;
  const losing = new AbortController();
  const lost = (): void => losing.abort(new LeaseLostError());
  const stopRenewing = keepLease({ store, key, leaseId, leaseMs, begunAt, renewEveryMs, logger, lost });
  const signal = outer === undefined ? losing.signal : AbortSignal.any([losing.signal, outer]);
  let result: T;
  try {
    result = await work({ key, leaseId, signal });
  } catch (error) {
    await stopRenewing();
    if (!losing.signal.aborted) await releaseQuietly(store, key, leaseId, logger);
    throw error;
  }
  await stopRenewing();
  // Also when the lease seems to be lost: the store knows, and marks it only for the lease that holds it.
  const { status } = await store.finish(key, leaseId);
  if (status === "LeaseLost") throw new LeaseLostError();
  return { status: "Done", result };
}

/** The error of the work is the one to tell. A lease that cannot be released ends by itself. */
async function releaseQuietly(
  store: LeasingInboxStore,
  key: string,
  leaseId: string,
  logger: Logger,
): Promise<void> {
  try {
    await store.release(key, leaseId);
  } catch (error) {
    logger.warn("lease not released", { error: safeReason(error) });
  }
}
