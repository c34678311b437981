import { setMaxListeners } from "node:events";
import { type Budget, timeBudget } from "../../base/budget.js";
import { type Logger, safeReason } from "../../base/logger.js";
import { processTimers, type Timers, withinTime, yieldToEventLoop } from "../../base/timers.js";
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

export interface TenantRunResult {
  readonly turns: number;
  /** Tenants whose turn failed. They are quarantined. */
  readonly failed: readonly string[];
  /** Tenants that had no turn because they are quarantined since an earlier run. */
  readonly quarantined: readonly string[];
  /** Tenants that had no turn, or have more to do, when the time was over: another run should continue with them. */
  readonly left: readonly string[];
}

/** A shorter turn could only claim and release. */
const shortestTurnMs = 250;
/** A pool that has to be closed first is closed within this. A wait that is longer leaves its slot to other tenants. */
const patienceMs = 50;
/** Turns on an embedded database never wait for the network: other work of the process has to get its time in between. */
const longestTickMs = 5;

interface Turn {
  readonly id: string;
  /** False while it waits for its connection slots for long. */
  hasSlot: boolean;
}

type EndedTurn = Turn & { readonly result: TurnResult };

interface TenantRunState extends TenantRun {
  readonly timers: Timers;
  /** Follows the budget's signal. */
  readonly stopped: AbortController;
  readonly selected: Selection;
  readonly left: Set<string>;
  readonly failed: Set<string>;
  readonly quarantinedBefore: readonly string[];
  /** Turns that have ended and are not recorded yet. */
  readonly ended: EndedTurn[];
  /** Turns that have their connection slots and wait for a slot of `concurrency`. */
  readonly waitingForSlot: (() => void)[];
  /** Turns that have not ended. */
  unfinished: number;
  /** Turns with a slot of `concurrency`. */
  running: number;
  turns: number;
  /** Ends the wait for the next event. */
  resume: () => void;
}

/** Gives tenants turns within one budget. A tenant that fails or hangs costs the others no more than its own turn. */
export async function runTenants(run: TenantRun): Promise<TenantRunResult> {
  const state = initialState(run);
  const stop = (): void => state.stopped.abort(run.budget.signal.reason);
  if (run.budget.signal.aborted) stop();
  run.budget.signal.addEventListener("abort", stop);
  try {
    return await turnLoop(state);
  } finally {
    run.budget.signal.removeEventListener("abort", stop);
    // After an error of the selection: turns that wait give their connections back.
    state.stopped.abort();
    for (const resumeTurn of state.waitingForSlot.splice(0)) resumeTurn();
  }
}

async function turnLoop(state: TenantRunState): Promise<TenantRunResult> {
  let tickStartedAt = performance.now();
  for (;;) {
    recordEndedTurns(state);
    const startAgainMs = startTurns(state);
    if (state.unfinished === 0) return resultOf(state);
    await nextEvent(state, startAgainMs);
    if (performance.now() - tickStartedAt >= longestTickMs) {
      await yieldToEventLoop();
      tickStartedAt = performance.now();
    }
  }
}

function initialState(run: TenantRun): TenantRunState {
  const stopped = new AbortController();
  setMaxListeners(0, stopped.signal); // many tenants may wait for a connection
  const quarantinedBefore = run.ids.filter((id) => run.quarantine.has(id));
  const isQuarantined = new Set(quarantinedBefore);
  const ids = run.ids.filter((id) => !isQuarantined.has(id));
  return {
    ...run,
    stopped,
    timers: run.timers ?? processTimers,
    selected: run.selection.begin(ids, run.pollTimeoutMs),
    left: new Set(ids),
    failed: new Set(),
    quarantinedBefore,
    ended: [],
    waitingForSlot: [],
    unfinished: 0,
    running: 0,
    turns: 0,
    resume: () => {},
  };
}

function recordEndedTurns(state: TenantRunState): void {
  for (const { id, hasSlot, result } of state.ended.splice(0)) {
    state.unfinished--;
    if (hasSlot) state.running--;
    if ("error" in result) recordFailure(state, id, result.error);
    else {
      if (!result.more) state.left.delete(id);
      if (result.more !== "unknown") state.quarantine.recovered(id);
      state.selected.ended(id, result.more ? "more" : "empty");
    }
  }
}

function recordFailure(
  { left, failed, quarantine, logger, selected }: TenantRunState,
  id: string,
  error: unknown,
) {
  left.delete(id);
  failed.add(id);
  const forMs = quarantine.failed(id);
  logger.error("a tenant failed and is quarantined", { store: id, forMs, reason: safeReason(error) });
  selected.ended(id, "failed");
}

/** Starts turns while there are free slots, time and tenants. Returns when to try again even if no turn has ended. */
function startTurns(state: TenantRunState): number | undefined {
  while (state.running < slotsOf(state)) {
    const resumeTurn = state.waitingForSlot.shift();
    if (resumeTurn !== undefined) {
      state.running++;
      resumeTurn();
      continue;
    }
    if (!mayStart(state)) return undefined;
    const id = nextTenant(state);
    if (id === undefined) return state.selected.nextMs?.();
    state.unfinished++;
    state.running++;
    state.turns++;
    const turn: Turn = { id, hasSlot: true };
    void runTurn(state, turn).then((result) => {
      state.ended.push({ ...turn, result });
      state.resume();
    });
  }
  return undefined;
}

const mayStart = ({ budget, stopped }: TenantRunState): boolean =>
  !stopped.signal.aborted && budget.remainingMs() >= shortestTurnMs;

const slotsOf = ({ selection, concurrency }: TenantRunState): number =>
  selection.sequential ? 1 : concurrency;

/** A selection that goes in rounds may return a tenant that has failed in this run: it has no second turn. */
function nextTenant({ selected, failed, quarantine }: TenantRunState): string | undefined {
  for (;;) {
    const id = selected.next();
    if (id === undefined || !(failed.has(id) || quarantine.has(id))) return id;
    selected.ended(id, "failed");
  }
}

async function runTurn(state: TenantRunState, turn: Turn): Promise<TurnResult> {
  let release: (() => void) | undefined;
  try {
    release = state.reserve === undefined ? () => {} : await reserved(state, turn, state.reserve);
    return release === undefined ? { more: "unknown" } : await timedTurn(state, turn.id);
  } catch (error) {
    return { error };
  } finally {
    release?.(); // at once, even if the turn was given up and still runs
  }
}

/** Waits for connection slots. A wait of more than `patienceMs` leaves the turn's slot to other tenants meanwhile. */
async function reserved(state: TenantRunState, turn: Turn, reserve: NonNullable<TenantRun["reserve"]>) {
  const { budget, turnMs, selection, timers, stopped } = state;
  const leaveSlot = (): void => {
    turn.hasSlot = false;
    state.running--;
    state.resume();
  };
  const cancel = selection.sequential ? () => {} : timers.after(patienceMs, leaveSlot);
  let release: (() => void) | undefined;
  try {
    release = await reserve(turn.id, Math.min(turnMs, budget.remainingMs()), stopped.signal);
  } finally {
    cancel();
  }
  if (turn.hasSlot || release === undefined) return release;
  if (mayStart(state)) {
    await new Promise<void>((resolve) => {
      state.waitingForSlot.push(resolve);
      state.resume();
    });
    turn.hasSlot = true;
  }
  if (mayStart(state)) return release;
  release();
  return undefined;
}

/** Waits until a turn ends, or for `ms` at most. */
function nextEvent(state: TenantRunState, ms: number | undefined): Promise<void> {
  return new Promise((resolve) => {
    const cancel = ms === undefined ? undefined : state.timers.after(ms, resolve);
    state.resume = () => {
      cancel?.();
      resolve();
    };
  });
}

const resultOf = ({ turns, failed, quarantinedBefore, left }: TenantRunState): TenantRunResult => ({
  turns,
  failed: [...failed],
  quarantined: quarantinedBefore,
  left: [...left],
});

/**
 * One tenant's turn within its own time. Returns whether there may be more to do. An error quarantines the tenant.
 * `givenUp` fires when the turn did not end in time and is no longer waited for.
 */
type TakeTurn = (id: string, turnBudget: Budget, givenUp: AbortSignal) => Promise<boolean>;

interface TimedTurnOptions {
  readonly turn: TakeTurn;
  /** The longest time of one turn. */
  readonly turnMs: number;
  /** Of the whole run. */
  readonly budget: Budget;
  readonly timers: Timers;
}

/** `more` is "unknown" where the turn did not begin, or was cut off by the end of the run's time. */
type TurnResult = { readonly more: boolean | "unknown" } | { readonly error: unknown };

/** A turn ends by itself when its budget does. A turn that does not is given up after this. */
const turnGraceMs = 250;
/** Waits for a turn until its time is over. */
async function timedTurn(
  { turn, turnMs, budget, timers }: TimedTurnOptions,
  id: string,
): Promise<TurnResult> {
  const ms = Math.min(turnMs, budget.remainingMs());
  const givenUp = new AbortController();
  const tooLate = (): Error => {
    const error = turnTimeout(turnMs);
    givenUp.abort(error);
    return error;
  };
  try {
    const running = turn(id, turnBudget(budget, ms), givenUp.signal);
    return { more: await withinTime(ms + turnGraceMs, running, tooLate, timers) };
  } catch (error) {
    // The end of the run's time cut it off. The tenant is left to another run, and not quarantined.
    if (ms < turnMs && givenUp.signal.aborted) return { more: "unknown" };
    throw error;
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

const turnTimeout = (turnMs: number) =>
  new InvalidOperationError(`The tenant's turn exceeded turnMs (${turnMs} ms).`);

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
