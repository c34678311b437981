import { setMaxListeners } from "node:events";
import {
  type Budget,
  processTimers,
  type Timers,
  timeBudget,
  withinTime,
  yieldToEventLoop,
} from "../../base/async.js";
import { type Logger, safeReason } from "../../base/logger.js";
import { InvalidOperationError } from "../../errors.js";
import type { Selection, SelectionStrategy } from "./selection.js";

export interface TenantRun {
  readonly ids: readonly string[];
  readonly selection: SelectionStrategy;
  /** The time limit of a poll, for the selection: a turn that runs for longer has found work. */
  readonly pollTimeoutMs?: number;
  /** Turns at once, unless the selection is sequential. */
  readonly concurrency: number;
  readonly budget: Budget;
  /** The longest time of one turn. */
  readonly turnMs: number;
  /**
   * Waits for what a turn needs before it begins: connection slots. Returns the function that gives them back, or
   * undefined when they were not free in time. A longer wait takes no slot of `concurrency`.
   */
  readonly reserve?: (id: string, withinMs: number, signal: AbortSignal) => Promise<(() => void) | undefined>;
  readonly turn: TakeTurn;
  readonly quarantine: Quarantine;
  readonly logger: Logger;
  /** For simulations. */
  readonly timers?: Timers;
}

/** What the turns of a run did. */
export interface TenantRunResult {
  readonly turns: number;
  /** Tenants whose turn failed. They are quarantined. */
  readonly failed: readonly string[];
  /** Tenants that had no turn because they are quarantined since an earlier run. */
  readonly quarantined: readonly string[];
  /** Tenants that had no turn, or have more to do, when the time was over: another run should continue with them. */
  readonly left: readonly string[];
}

/** Gives tenants turns within one budget. A tenant that fails or hangs costs the others no more than its own turn. */
export const runTenants = async (run: TenantRun): Promise<TenantRunResult> => new Turns(run).run();

/**
 * One tenant's turn within its own time. Returns whether there may be more to do. An error quarantines the tenant.
 * `givenUp` fires when the turn did not end in time and is no longer waited for.
 */
type TakeTurn = (id: string, turnBudget: Budget, givenUp: AbortSignal) => Promise<boolean>;

/** A shorter turn could only claim and release. */
const shortestTurnMs = 250;
/** A turn ends by itself when its budget does. A turn that does not is given up after this. */
const turnGraceMs = 250;
/** A pool that has to be closed first is closed within this. A wait that is longer leaves its slot to other tenants. */
const patienceMs = 50;
/** Turns on an embedded database never wait for the network: other work of the process has to get its time in between. */
const longestTickMs = 5;

interface Turn {
  readonly id: string;
  /** False while it waits for its connection slots for long. */
  hasSlot: boolean;
}

/** `more` is "unknown" where the turn did not begin, or was cut off by the end of the run's time. */
type TurnResult = { readonly more: boolean | "unknown" } | { readonly error: unknown };

/** The turns of one run. */
class Turns {
  private readonly timers: Timers;
  private readonly slots: number;
  private readonly selected: Selection;
  /** Follows the budget's signal. */
  private readonly stopped = new AbortController();
  private readonly left: Set<string>;
  private readonly failed = new Set<string>();
  private readonly quarantinedBefore: readonly string[];
  /** Turns that have ended and are not recorded yet. */
  private readonly ended: (Turn & { readonly result: TurnResult })[] = [];
  /** Turns that have their connection slots and wait for a slot of `concurrency`. */
  private readonly waitingForSlot: (() => void)[] = [];
  /** Turns that have not ended. */
  private unfinished = 0;
  /** Turns with a slot of `concurrency`. */
  private running = 0;
  private turns = 0;
  /** Ends the wait for the next event. */
  private resume: () => void = () => {};

  constructor(private readonly given: TenantRun) {
    const { selection, concurrency, quarantine, pollTimeoutMs, timers = processTimers } = given;
    this.timers = timers;
    this.slots = selection.sequential ? 1 : concurrency;
    this.quarantinedBefore = given.ids.filter((id) => quarantine.has(id));
    const isQuarantined = new Set(this.quarantinedBefore);
    const ids = given.ids.filter((id) => !isQuarantined.has(id));
    this.left = new Set(ids);
    this.selected = selection.begin(ids, pollTimeoutMs);
    setMaxListeners(0, this.stopped.signal); // many tenants may wait for a connection
  }

  async run(): Promise<TenantRunResult> {
    const { signal } = this.given.budget;
    const stop = (): void => this.stopped.abort(signal.reason);
    if (signal.aborted) stop();
    signal.addEventListener("abort", stop);
    try {
      await this.takeTurns();
    } finally {
      signal.removeEventListener("abort", stop);
      // After an error of the selection: turns that wait give their connections back.
      this.stopped.abort();
      for (const resumeTurn of this.waitingForSlot.splice(0)) resumeTurn();
    }
    const { turns, failed, quarantinedBefore: quarantined, left } = this;
    return { turns, failed: [...failed], quarantined, left: [...left] };
  }

  private async takeTurns(): Promise<void> {
    let tickStartedAt = performance.now();
    for (;;) {
      this.recordEndedTurns();
      const startAgainMs = this.startTurns();
      if (this.unfinished === 0) return;
      await this.nextEvent(startAgainMs);
      if (performance.now() - tickStartedAt >= longestTickMs) {
        await yieldToEventLoop();
        tickStartedAt = performance.now();
      }
    }
  }

  private recordEndedTurns(): void {
    const { quarantine, logger } = this.given;
    for (const { id, hasSlot, result } of this.ended.splice(0)) {
      this.unfinished--;
      if (hasSlot) this.running--;
      if ("error" in result) {
        this.left.delete(id);
        this.failed.add(id);
        const [forMs, reason] = [quarantine.failed(id), safeReason(result.error)];
        logger.error("a tenant failed and is quarantined", { store: id, forMs, reason });
        this.selected.ended(id, "failed");
        continue;
      }
      if (!result.more) this.left.delete(id);
      if (result.more !== "unknown") quarantine.recovered(id);
      this.selected.ended(id, result.more ? "more" : "empty");
    }
  }

  /** Starts turns while there are free slots, time and tenants. Returns when to try again even if no turn has ended. */
  private startTurns(): number | undefined {
    while (this.running < this.slots) {
      const resumeTurn = this.waitingForSlot.shift();
      if (resumeTurn !== undefined) {
        this.running++;
        resumeTurn();
        continue;
      }
      if (!this.mayStart()) return undefined;
      const id = this.nextTenant();
      if (id === undefined) return this.selected.nextMs?.();
      this.unfinished++;
      this.running++;
      this.turns++;
      const turn: Turn = { id, hasSlot: true };
      void this.runTurn(turn).then((result) => {
        this.ended.push({ ...turn, result });
        this.resume();
      });
    }
    return undefined;
  }

  private mayStart(): boolean {
    return !this.stopped.signal.aborted && this.given.budget.remainingMs() >= shortestTurnMs;
  }

  /** A selection that goes in rounds may return a tenant that has failed in this run: it has no second turn. */
  private nextTenant(): string | undefined {
    for (;;) {
      const id = this.selected.next();
      if (id === undefined || !(this.failed.has(id) || this.given.quarantine.has(id))) return id;
      this.selected.ended(id, "failed");
    }
  }

  private async runTurn(turn: Turn): Promise<TurnResult> {
    const { reserve } = this.given;
    let release: (() => void) | undefined;
    try {
      release = reserve === undefined ? () => {} : await this.reserved(turn, reserve);
      return release === undefined ? { more: "unknown" } : await this.timedTurn(turn.id);
    } catch (error) {
      return { error };
    } finally {
      release?.(); // at once, even if the turn was given up and still runs
    }
  }

  /** Waits for connection slots. A wait of more than `patienceMs` leaves the turn's slot to other tenants meanwhile. */
  private async reserved(turn: Turn, reserve: NonNullable<TenantRun["reserve"]>) {
    const { budget, turnMs, selection } = this.given;
    const leaveSlot = (): void => {
      turn.hasSlot = false;
      this.running--;
      this.resume();
    };
    const cancel = selection.sequential ? () => {} : this.timers.after(patienceMs, leaveSlot);
    let release: (() => void) | undefined;
    try {
      release = await reserve(turn.id, Math.min(turnMs, budget.remainingMs()), this.stopped.signal);
    } finally {
      cancel();
    }
    if (turn.hasSlot || release === undefined) return release;
    if (this.mayStart()) {
      await new Promise<void>((resolve) => {
        this.waitingForSlot.push(resolve);
        this.resume();
      });
      turn.hasSlot = true;
    }
    if (this.mayStart()) return release;
    release();
    return undefined;
  }

  /** Waits for a turn until its time is over. */
  private async timedTurn(id: string): Promise<TurnResult> {
    const { turn, turnMs, budget } = this.given;
    const ms = Math.min(turnMs, budget.remainingMs());
    const givenUp = new AbortController();
    const tooLate = (): Error => {
      const error = new InvalidOperationError(`The tenant's turn exceeded turnMs (${turnMs} ms).`);
      givenUp.abort(error);
      return error;
    };
    try {
      const running = turn(id, turnBudget(budget, ms), givenUp.signal);
      return { more: await withinTime(ms + turnGraceMs, running, tooLate, this.timers) };
    } catch (error) {
      // The end of the run's time cut it off. The tenant is left to another run, and not quarantined.
      if (ms < turnMs && givenUp.signal.aborted) return { more: "unknown" };
      throw error;
    }
  }

  /** Waits until a turn ends, or for `ms` at most. */
  private nextEvent(ms: number | undefined): Promise<void> {
    return new Promise((resolve) => {
      const cancel = ms === undefined ? undefined : this.timers.after(ms, resolve);
      this.resume = () => {
        cancel?.();
        resolve();
      };
    });
  }
}

/** Ends after `ms`, measured by the clock of the run's budget. */
function turnBudget(budget: Budget, ms: number): Budget {
  const startMs = budget.remainingMs();
  if (!Number.isFinite(startMs)) return timeBudget(ms, budget.signal); // a server's budget has no end
  return {
    signal: budget.signal,
    remainingMs: () => Math.max(0, ms - (startMs - budget.remainingMs())),
  };
}

/** Tenants that failed and are left alone for a while. An instance remembers them; a new instance begins without any. */
interface Quarantine {
  has(id: string): boolean;
  /** Returns for how long the tenant is quarantined. */
  failed(id: string): number;
  recovered(id: string): void;
}

const firstQuarantineMs = 5_000;
const longestQuarantineMs = 5 * 60_000;

/** The time doubles after each failure in a row, up to five minutes. */
export function tenantQuarantine(now: () => number = () => performance.now()): Quarantine {
  const entries = new Map<string, { failures: number; until: number }>();
  return {
    has(id) {
      const until = entries.get(id)?.until;
      return until !== undefined && now() < until;
    },
    failed(id) {
      const failures = (entries.get(id)?.failures ?? 0) + 1;
      const ms = Math.min(longestQuarantineMs, firstQuarantineMs * 2 ** Math.min(failures - 1, 30));
      entries.set(id, { failures, until: now() + ms });
      return ms;
    },
    recovered: (id) => void entries.delete(id),
  };
}
