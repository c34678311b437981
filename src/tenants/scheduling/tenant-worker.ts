import type { Budget } from "../../base/async.js";
import { sleep } from "../../base/async.js";
import { loggerOf, safeReason } from "../../base/logger.js";
import { refuseUnknown, requireDuration } from "../../queue/arguments.js";
import { tenantKey } from "../tenant.js";
import { fairSelection, type IdleHistory, idleDelays } from "./fair-selection.js";
import { reapTenants } from "./maintenance.js";
import type { SelectionStrategy } from "./selection.js";
import {
  createTenantDispatcher,
  dispatchDefaults,
  type TenantDispatcherOptions,
} from "./tenant-dispatcher.js";

/** Options of a worker for many tenants. */
export interface TenantWorkerOptions extends Omit<TenantDispatcherOptions, "selection"> {
  /** The longest time between two polls of an idle tenant: 60 s by default. Minutes let a serverless database sleep. */
  readonly idlePollMs?: number;
  /** The time between two reaps of expired leases: 10 minutes by default. */
  readonly reapMs?: number;
  /** The time that running handlers have to finish when the worker stops: 10 s by default. */
  readonly drainMs?: number;
  /** For tests: instead of waiting for so long. */
  readonly pause?: (ms: number, signal: AbortSignal) => Promise<void>;
}

/** A worker for many tenants that runs. */
export interface TenantWorker {
  /** A message has been stored for this tenant: it is polled now, whatever its idle back-off is. */
  wake(key: string): void;
  /** Starts no new work and lets running handlers finish or abort. Resolves when everything is settled. */
  stop(): Promise<void>;
}

const defaults = { idlePollMs: 60_000, reapMs: 10 * 60_000, drainMs: 10_000 } as const;
const known = [
  "tenants",
  "dispatchers",
  "logger",
  "now",
  "pause",
  ...Object.keys({ ...dispatchDefaults, ...defaults }),
];

/** Between two rounds. A round polls the tenants whose idle delay has ended. */
const paceMs = 500;
/** A round with work ends after this, so that tenants that were added meanwhile are in the next one. */
const roundMs = 60_000;

/**
 * Serves all tenants for as long as the process lives: for a server. An idle tenant is polled less and less often; work
 * that a poll finds, or a wake-up, resets its idle back-off.
 *
 * @example
 * const worker = createTenantWorker({ tenants, dispatchers: { inbox: createDispatcher({ handlers }), outbox: undefined } });
 * worker.wake("acme");
 * await worker.stop();
 */
export function createTenantWorker(options: TenantWorkerOptions): TenantWorker {
  refuseUnknown(options, known, "createTenantWorker");
  const { idlePollMs, reapMs, drainMs, pause: wait = sleep, ...rest } = { ...defaults, ...options };
  requireDuration(idlePollMs, "idlePollMs");
  requireDuration(reapMs, "reapMs");
  requireDuration(drainMs, "drainMs");
  const { tenants, now = () => performance.now() } = options;
  const logger = loggerOf(options.logger);
  const history: IdleHistory = new Map();
  const dispatcher = createTenantDispatcher({
    ...rest,
    selection: inRounds({ history, now, longestMs: Math.max(idleDelays.firstMs, idlePollMs - paceMs) }),
  });
  const reap = reapTenants({ dispatcher, logger, pollTimeoutMs: options.pollTimeoutMs });
  const stopping = new AbortController();
  const { signal } = stopping;
  let endsAt = Number.POSITIVE_INFINITY;
  const budget: Budget = { signal, remainingMs: () => Math.max(0, endsAt - performance.now()) };

  /** Returns whether the job succeeded. */
  const attempt = async (job: string, work: () => Promise<unknown>): Promise<boolean> => {
    try {
      await work();
      return true;
    } catch (error) {
      if (!signal.aborted) logger.error(`${job} failed`, { reason: safeReason(error) });
      return false;
    }
  };
  const pause = async (ms: number): Promise<void> => {
    if (!signal.aborted) await wait(ms, signal).catch(() => {}); // stopped
  };
  const dispatchLoop = async (): Promise<void> => {
    while (!signal.aborted) {
      const succeeded = await attempt("dispatch", () => dispatcher.run(budget));
      await pause(succeeded ? paceMs : idleDelays.longestMs); // a failure: the tenants could not be listed
    }
  };
  const reapLoop = async (): Promise<void> => {
    while (!signal.aborted) {
      await attempt("reap", async () => reap(budget, await tenants.distinctStores()));
      await pause(reapMs);
    }
  };

  /** Tenants that are polled because of a wake-up, and whether another wake-up came meanwhile. */
  const woken = new Map<string, { again: boolean }>();
  const pollWoken = async (id: string, state: { again: boolean }): Promise<void> => {
    do {
      state.again = false;
      history.delete(id);
      await attempt("dispatch", () => dispatcher.run(budget, [id], { woken: true }));
    } while (state.again && !signal.aborted);
    woken.delete(id);
  };
  const running = new Set<Promise<void>>();
  const track = (work: Promise<void>): void => {
    const tracked = work.finally(() => running.delete(tracked));
    running.add(tracked);
  };

  track(dispatchLoop());
  track(reapLoop());
  return {
    wake(key) {
      const id = tenantKey(key);
      const state = woken.get(id) ?? { again: false };
      state.again = true;
      if (woken.has(id) || signal.aborted) return;
      woken.set(id, state);
      track(pollWoken(id, state));
    },
    async stop() {
      endsAt = Math.min(endsAt, performance.now() + drainMs);
      stopping.abort();
      while (running.size > 0) await Promise.all(running);
    },
  };
}

/** The fair order, with an idle back-off that continues from one round to the next. */
const inRounds = (run: {
  readonly history: IdleHistory;
  readonly now: () => number;
  readonly longestMs: number;
}): SelectionStrategy => ({
  sequential: false,
  begin(ids, pollTimeoutMs) {
    const round = fairSelection(ids, { ...run, pollTimeoutMs, random: Math.random });
    const endsAt = run.now() + roundMs;
    const isOver = () => run.now() >= endsAt;
    return {
      next: () => (isOver() ? undefined : round.next()),
      ended: round.ended,
      nextMs: () => (isOver() ? undefined : round.nextMs?.()),
    };
  },
});
