import { setTimeout as sleep } from "node:timers/promises";
import type { Budget } from "../../base/budget.js";
import { guardedLogger, silentLogger } from "../../base/logger.js";
import { safeReason } from "../../base/safe-reason.js";
import { refuseUnknown, requireDuration } from "../../queue/arguments.js";
import { tenantKey } from "../tenant.js";
import { fairly, rests } from "./fair.js";
import type { RestMemory } from "./idle-backoff.js";
import { reapTenants } from "./maintain-tenants.js";
import type { SelectionStrategy } from "./selection.js";
import {
  createTenantDispatcher,
  dispatchDefaults,
  type TenantDispatcherOptions,
} from "./tenant-dispatcher.js";

export interface TenantWorkerOptions extends Omit<TenantDispatcherOptions, "selection"> {
  /** With nothing to do, looks at a tenant slow down to this: 60 s by default. Minutes let a serverless database sleep. */
  readonly idlePollMs?: number;
  /** Between two reaps of expired leases: 10 minutes by default. */
  readonly reapMs?: number;
  /** What handlers get to finish in when the worker stops: 10 s by default. */
  readonly drainMs?: number;
  /** For tests: instead of waiting for so long. */
  readonly pause?: (ms: number, signal: AbortSignal) => Promise<void>;
}

export interface TenantWorker {
  /** Something has come for this tenant: it is looked at now, however long it has been idle. */
  wake(key: string): void;
  /** Begins nothing new, lets running handlers finish or abort, settles. Resolves when all is settled. */
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

/** Between two rounds, each of which looks at those whose rest is over. */
const paceMs = 500;
/** A round that has work ends after this, so that new tenants have their turns; nobody notices. */
const roundMs = 60_000;

/**
 * For those who have a server: serves all tenants for as long as the process lives. A tenant with nothing to do is
 * looked at ever less often; whatever is found there, or wakes it, starts over.
 *
 * @example
 * const worker = createTenantWorker({ tenants, dispatchers: { inbox: createDispatcher({ handlers }), outbox: undefined } });
 * worker.wake("acme");
 * await worker.stop();
 */
export function createTenantWorker(options: TenantWorkerOptions): TenantWorker {
  refuseUnknown(options, known, "createTenantWorker");
  const { idlePollMs, reapMs, drainMs, pause: wait, ...rest } = { ...defaults, ...options };
  requireDuration(idlePollMs, "idlePollMs");
  requireDuration(reapMs, "reapMs");
  requireDuration(drainMs, "drainMs");
  const { tenants, now = () => performance.now() } = options;
  const logger = guardedLogger(options.logger ?? silentLogger);
  const memory: RestMemory = new Map();
  const dispatcher = createTenantDispatcher({
    ...rest,
    selection: inRounds({ memory, now, longestMs: Math.max(rests.firstMs, idlePollMs - paceMs) }),
  });
  const reap = reapTenants({ dispatcher, logger, pollMs: options.pollMs });
  const stopping = new AbortController();
  const { signal } = stopping;
  let endsAt = Number.POSITIVE_INFINITY;
  const budget: Budget = { signal, remainingMs: () => Math.max(0, endsAt - performance.now()) };

  const attempt = async (what: string, work: () => Promise<unknown>): Promise<boolean> => {
    try {
      await work();
      return true;
    } catch (error) {
      if (!signal.aborted) logger.error(`${what} failed`, { reason: safeReason(error) });
      return false;
    }
  };
  const pause = async (ms: number): Promise<void> => {
    if (!signal.aborted) await (wait?.(ms, signal) ?? sleep(ms, undefined, { signal })).catch(() => {}); // stopped
  };
  /** Without tenants there is nothing to do: their source is asked again, but not at once. */
  const dispatching = async (): Promise<void> => {
    while (!signal.aborted) {
      const isDone = await attempt("dispatch", () => dispatcher.run(budget));
      await pause(isDone ? paceMs : rests.longestMs);
    }
  };
  const reaping = async (): Promise<void> => {
    while (!signal.aborted) {
      await attempt("reap", async () => reap(budget, await tenants.distinctStores()));
      await pause(reapMs);
    }
  };

  /** Those that are being looked at because they were woken, and whether they were woken again meanwhile. */
  const woken = new Map<string, { again: boolean }>();
  const running = new Set<Promise<void>>();
  const look = async (id: string, state: { again: boolean }): Promise<void> => {
    do {
      state.again = false;
      memory.delete(id);
      await attempt("dispatch", () => dispatcher.run(budget, [id], { woken: true }));
    } while (state.again && !signal.aborted);
    woken.delete(id);
  };
  const keep = (work: Promise<void>): void => {
    const kept = work.finally(() => running.delete(kept));
    running.add(kept);
  };

  keep(dispatching());
  keep(reaping());
  return {
    wake(key) {
      const id = tenantKey(key);
      const state = woken.get(id) ?? { again: false };
      state.again = true;
      if (woken.has(id) || signal.aborted) return;
      woken.set(id, state);
      keep(look(id, state));
    },
    async stop() {
      endsAt = Math.min(endsAt, performance.now() + drainMs);
      stopping.abort();
      while (running.size > 0) await Promise.all(running);
    },
  };
}

/** The fair order, which remembers from one round to the next who rests. */
const inRounds = (run: {
  readonly memory: RestMemory;
  readonly now: () => number;
  readonly longestMs: number;
}): SelectionStrategy => ({
  sequential: false,
  begin(ids) {
    const round = fairly(ids, { ...run, random: Math.random });
    const endsAt = run.now() + roundMs;
    const isOver = () => run.now() >= endsAt;
    return {
      next: () => (isOver() ? undefined : round.next()),
      ended: round.ended,
      nextMs: () => (isOver() ? undefined : round.nextMs?.()),
    };
  },
});
