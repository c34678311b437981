import { setTimeout as sleep } from "node:timers/promises";
import { InvalidOperationError } from "../errors.js";
import { type Budget, timeBudget } from "../queue/budget.js";
import { changes } from "../queue/changes.js";
import type { Logger } from "../queue/logger.js";
import { safeReason } from "../queue/safe-reason.js";
import type { SelectionStrategy } from "./selection.js";
import type { SetAside } from "./set-aside.js";

export interface TenantRun {
  readonly ids: readonly string[];
  readonly selection: SelectionStrategy;
  /** Tenants at once, unless the selection wants one after another. */
  readonly concurrency: number;
  readonly budget: Budget;
  /** The most that one turn may take. */
  readonly turnMs: number;
  /** Answers whether there may be more. What it throws is the tenant's own fault. */
  readonly turn: (id: string, budget: Budget) => Promise<boolean>;
  readonly aside: SetAside;
  readonly logger: Logger;
  /** For simulations: waits instead of a timer. */
  readonly pause?: (ms: number, signal: AbortSignal) => Promise<void>;
}

export interface TenantRunResult {
  readonly turns: number;
  /** Could not be asked, or not to the end. They are set aside for a while. */
  readonly failed: readonly string[];
  /** Not asked now, because they failed a short time ago. */
  readonly setAside: readonly string[];
  /** Not reached, or with more to do, when the time was over: somebody should go on with them. */
  readonly left: readonly string[];
}

/** No turn is begun with less: it could only claim and hand back. */
const shortestTurnMs = 250;
/** A turn ends by itself at its limit; one that does not is left alone after this. */
const graceMs = 250;

/** Turns of many tenants within one budget. One that fails or hangs costs the others no more than its own turn. */
export async function runTenants(run: TenantRun): Promise<TenantRunResult> {
  const { budget, aside, logger, selection } = run;
  const pause = run.pause ?? ((ms, signal) => sleep(ms, undefined, { signal }));
  const waiting = run.ids.filter((id) => aside.has(id));
  const asked = run.ids.filter((id) => !aside.has(id));
  const chosen = selection.begin(asked);
  const changed = changes();
  const left = new Set(asked);
  const failed = new Set<string>();
  let busy = 0;
  let turns = 0;

  const hasTime = (): boolean => !budget.signal.aborted && budget.remainingMs() >= shortestTurnMs;

  const takeTurn = async (id: string): Promise<void> => {
    try {
      const more = await within(run.turnMs, budget, pause, (limit) => run.turn(id, limit));
      if (!more) left.delete(id);
      aside.recovered(id);
      chosen.ended(id, more ? "more" : "empty");
    } catch (error) {
      left.delete(id);
      failed.add(id);
      const forMs = aside.failed(id);
      logger.error("a tenant failed and is set aside", { store: id, forMs, reason: safeReason(error) });
      chosen.ended(id, "failed");
    }
  };

  const start = (id: string): void => {
    busy++;
    turns++;
    void takeTurn(id).finally(() => {
      busy--;
      changed.notify();
    });
  };

  const most = selection.sequential ? 1 : run.concurrency;
  /** A strategy that goes round and round may name one that has failed meanwhile. */
  const nextId = (): string | undefined => {
    for (;;) {
      const id = chosen.next();
      if (id === undefined || !aside.has(id)) return id;
      chosen.ended(id, "failed");
    }
  };

  for (;;) {
    while (busy < most && hasTime()) {
      const id = nextId();
      if (id === undefined) break;
      start(id);
    }
    if (busy === 0) break;
    await changed.next(Number.POSITIVE_INFINITY);
  }
  return { turns, failed: [...failed], setAside: waiting, left: [...left] };
}

/** Both what is left of all the time and the turn's own. */
async function within<T>(
  turnMs: number,
  budget: Budget,
  pause: (ms: number, signal: AbortSignal) => Promise<void>,
  work: (limit: Budget) => Promise<T>,
): Promise<T> {
  const startMs = budget.remainingMs();
  const ms = Math.min(turnMs, startMs);
  const limit: Budget = Number.isFinite(startMs)
    ? {
        signal: budget.signal,
        remainingMs: () => Math.max(0, ms - (startMs - budget.remainingMs())),
      }
    : timeBudget(ms, budget.signal); // a server's, which has no end
  const ended = new AbortController();
  const over = pause(ms + graceMs, ended.signal).then(
    () => {
      throw new InvalidOperationError(`It did not end within its ${Math.round(ms)} ms.`);
    },
    () => new Promise<never>(() => {}), // it did end
  );
  const working = work(limit);
  working.catch(() => {}); // when it fails after it was given up
  try {
    return await Promise.race([working, over]);
  } finally {
    ended.abort();
  }
}
