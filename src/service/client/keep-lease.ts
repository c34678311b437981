import type { Logger } from "../../base/logger.js";
import { safeReason } from "../../base/safe-reason.js";
import { sleep } from "../../base/wait.js";
import { withDeadline } from "../../queue/store-deadline.js";
import type { LeasingInboxStore, RenewResult } from "../inbox-store.js";

export interface KeptLease {
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

/** After a renewal that failed, the next one comes sooner: a lease of 30 s has 20 s left then. */
const retryMs = (renewEveryMs: number): number => Math.min(renewEveryMs / 4, 1_000);

/**
 * Renews a lease until the returned function is called. The lease counts from the moment the request was sent, on this
 * process's own steady clock: the store's lease ends later than that, so two holders never believe in it at once, whatever
 * their clocks say.
 */
export function keepLease(lease: KeptLease): () => Promise<void> {
  const stopping = new AbortController();
  const running = renewUntil(lease, stopping.signal);
  return async () => {
    stopping.abort();
    await running;
  };
}

async function renewUntil(lease: KeptLease, stop: AbortSignal): Promise<void> {
  const { leaseMs, renewEveryMs, lost } = lease;
  let endsAt = lease.begunAt + leaseMs;
  let waitMs = renewEveryMs;
  for (;;) {
    await sleep(Math.max(0, Math.min(waitMs, endsAt - performance.now())), stop).catch(() => {});
    if (stop.aborted) return;
    const sentAt = performance.now();
    if (sentAt >= endsAt) return lost();
    const status = await renewWithin(lease, endsAt - sentAt, stop);
    if (stop.aborted) return;
    if (status === "LeaseLost") return lost();
    if (status === "Renewed") endsAt = sentAt + leaseMs;
    waitMs = status === "Renewed" ? renewEveryMs : retryMs(renewEveryMs);
  }
}

async function renewWithin(
  { store, key, leaseId, leaseMs, logger }: KeptLease,
  ms: number,
  stop: AbortSignal,
): Promise<RenewResult["status"] | "failed"> {
  const renew = (signal: AbortSignal) => store.renew(key, leaseId, leaseMs, { signal });
  try {
    return (await withDeadline(ms, "The renewal of a lease", renew, stop)).status;
  } catch (error) {
    if (!stop.aborted) logger.warn("lease not renewed", { error: safeReason(error) });
    return "failed";
  }
}
