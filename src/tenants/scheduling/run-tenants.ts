import { attempted } from "../../base/attempted.js";
import { type Budget, timeBudget } from "../../base/budget.js";
import type { Logger } from "../../base/logger.js";
import { safeReason } from "../../base/safe-reason.js";
import { type TimeLimits, timeLimits } from "../../base/time-limits.js";
import { InvalidOperationError } from "../../errors.js";
import type { Quarantine } from "./quarantine.js";
import type { SelectionStrategy } from "./selection.js";

/** Runs work within both what is left of all the time and the turn's own. */
export type TurnTime = <T>(work: (limit: Budget) => Promise<T>) => Promise<T>;

export interface TenantRun {
  readonly ids: readonly string[];
  readonly selection: SelectionStrategy;
  /** Tenants at once, unless the selection wants one after another. */
  readonly concurrency: number;
  readonly budget: Budget;
  /** The most that one turn may take. */
  readonly turnMs: number;
  /**
   * Answers whether there may be more. What it throws is the tenant's own fault. Whatever is not sure to end by itself,
   * and soon, is to be `timed`.
   */
  readonly turn: (id: string, timed: TurnTime) => Promise<boolean>;
  readonly aside: Quarantine;
  readonly logger: Logger;
  /** For simulations: instead of a timer. */
  readonly limits?: TimeLimits;
}

export interface TenantRunResult {
  readonly turns: number;
  /** Could not be asked, or not to the end. They are set aside for a while. */
  readonly failed: readonly string[];
  /** Not asked now, because they failed a short time ago. */
  readonly quarantined: readonly string[];
  /** Not reached, or with more to do, when the time was over: somebody should go on with them. */
  readonly left: readonly string[];
}

/** No turn is begun with less: it could only claim and hand back. */
const shortestTurnMs = 250;
/** A turn ends by itself at its limit; one that does not is left alone after this. */
const graceMs = 250;
/** An embedded database answers within the same turn of the event loop, which others wait for as well. */
const longestLoopMs = 5;

const usualLimits = timeLimits();

/** Turns of many tenants within one budget. One that fails or hangs costs the others no more than its own turn. */
export async function runTenants(run: TenantRun): Promise<TenantRunResult> {
  const { budget, aside, logger, selection } = run;
  const limits = run.limits ?? usualLimits;
  const waiting: string[] = [];
  const asked: string[] = [];
  for (const id of run.ids) (aside.has(id) ? waiting : asked).push(id);
  const chosen = selection.begin(asked);
  const left = new Set(asked);
  const failed = new Set<string>();
  const most = selection.sequential ? 1 : run.concurrency;
  let busy = 0;
  let turns = 0;

  const hasTime = (): boolean => !budget.signal.aborted && budget.remainingMs() >= shortestTurnMs;

  const timed: TurnTime = (work) => within(run.turnMs, budget, limits, work);

  const succeeded = (id: string, more: boolean): void => {
    if (!more) left.delete(id);
    aside.recovered(id);
    chosen.ended(id, more ? "more" : "empty");
  };
  const hasFailed = (id: string, error: unknown): void => {
    left.delete(id);
    failed.add(id);
    const forMs = aside.failed(id);
    logger.error("a tenant failed and is quarantined", { store: id, forMs, reason: safeReason(error) });
    chosen.ended(id, "failed");
  };

  /** A strategy that goes round and round may name one that has failed meanwhile. */
  const nextId = (): string | undefined => {
    for (;;) {
      const id = chosen.next();
      if (id === undefined || !(failed.has(id) || aside.has(id))) return id;
      chosen.ended(id, "failed");
    }
  };

  await new Promise<void>((resolve, reject) => {
    let loopSince = performance.now();
    let isPausing = false;
    let hasBroken = false;
    let noAlarm = (): void => {};

    const startSome = (): void => {
      noAlarm();
      while (busy < most && hasTime()) {
        const id = nextId();
        if (id === undefined) {
          setAlarm();
          break;
        }
        busy++;
        turns++;
        attempted(() => run.turn(id, timed)).then(
          (more) => ended(() => succeeded(id, more)),
          (error: unknown) => ended(() => hasFailed(id, error)),
        );
      }
      if (busy === 0) resolve();
    };
    /** Somebody may have a turn though none of those that run has ended. */
    const setAlarm = (): void => {
      const ms = busy > 0 ? chosen.nextMs?.() : undefined;
      if (ms !== undefined) noAlarm = limits.after(ms, startSafely);
    };
    /** A strategy of the user's own that throws: the turns that run may end, and none follows. */
    const breakOff = (error: unknown): void => {
      hasBroken = true;
      noAlarm();
      reject(error);
    };
    const startSafely = (): void => {
      if (hasBroken) return;
      try {
        startSome();
      } catch (error) {
        breakOff(error);
      }
    };
    const ended = (settle: () => void): void => {
      busy--;
      try {
        settle();
      } catch (error) {
        breakOff(error);
        return;
      }
      if (isPausing) return;
      if (performance.now() - loopSince < longestLoopMs) startSafely();
      else {
        isPausing = true;
        setImmediate(() => {
          isPausing = false;
          loopSince = performance.now();
          startSafely();
        });
      }
    };
    startSafely();
  });
  return { turns, failed: [...failed], quarantined: waiting, left: [...left] };
}

function within<T>(
  turnMs: number,
  budget: Budget,
  limits: TimeLimits,
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
  return new Promise<T>((resolve, reject) => {
    const ended = limits.after(ms + graceMs, () =>
      reject(new InvalidOperationError(`It did not end within its ${Math.round(ms)} ms.`)),
    );
    attempted(() => work(limit)).then(
      (result) => {
        ended();
        resolve(result);
      },
      (error: unknown) => {
        ended();
        reject(error);
      },
    );
  });
}
