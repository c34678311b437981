import { type Budget, timeBudget } from "../../base/budget.js";
import type { Logger } from "../../base/logger.js";
import { safeReason } from "../../base/safe-reason.js";
import { processTimers, type Timers } from "../../base/timers.js";
import { yieldToEventLoop } from "../../base/wait.js";
import { withinTime } from "../../base/within-time.js";
import { InvalidOperationError } from "../../errors.js";
import type { Quarantine } from "./quarantine.js";
import type { Selection, SelectionStrategy } from "./selection.js";

export interface TenantRun {
  readonly ids: readonly string[];
  readonly selection: SelectionStrategy;
  /** Turns at once, unless the selection is sequential. */
  readonly concurrency: number;
  readonly budget: Budget;
  /** The longest time of one turn. */
  readonly turnMs: number;
  /** The longest time of a poll, for the selection; undefined where turns do not poll. */
  readonly pollTimeoutMs?: number;
  /** One tenant's turn within its own time. Returns whether there may be more to do. An error quarantines the tenant. */
  readonly turn: (id: string, turnBudget: Budget) => Promise<boolean>;
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
/** A turn ends by itself when its budget does. A turn that does not is given up after this. */
const graceMs = 250;
/** Turns on an embedded database never wait for the network: other work of the process has to get its time in between. */
const longestTickMs = 5;

type EndedTurn = { readonly id: string } & ({ readonly more: boolean } | { readonly error: unknown });

interface TenantRunState extends TenantRun {
  readonly timers: Timers;
  readonly selected: Selection;
  readonly left: Set<string>;
  readonly failed: Set<string>;
  readonly quarantinedBefore: readonly string[];
  /** Turns that have ended and are not settled yet. */
  readonly ended: EndedTurn[];
  running: number;
  turns: number;
  /** Ends the wait for the next event. */
  resume: () => void;
}

/** Gives tenants turns within one budget. A tenant that fails or hangs costs the others no more than its own turn. */
export async function runTenants(run: TenantRun): Promise<TenantRunResult> {
  const state = initialState(run);
  let tickStartedAt = performance.now();
  for (;;) {
    settleEndedTurns(state);
    const startAgainMs = startTurns(state);
    if (state.running === 0) return resultOf(state);
    await nextEvent(state, startAgainMs);
    if (performance.now() - tickStartedAt >= longestTickMs) {
      await yieldToEventLoop();
      tickStartedAt = performance.now();
    }
  }
}

function initialState(run: TenantRun): TenantRunState {
  const quarantinedBefore = run.ids.filter((id) => run.quarantine.has(id));
  const isQuarantined = new Set(quarantinedBefore);
  const ids = run.ids.filter((id) => !isQuarantined.has(id));
  return {
    ...run,
    timers: run.timers ?? processTimers,
    selected: run.selection.begin(ids, run.pollTimeoutMs),
    left: new Set(ids),
    failed: new Set(),
    quarantinedBefore,
    ended: [],
    running: 0,
    turns: 0,
    resume: () => {},
  };
}

function settleEndedTurns(state: TenantRunState): void {
  for (const turn of state.ended.splice(0)) {
    state.running--;
    if ("error" in turn) settleFailure(state, turn.id, turn.error);
    else {
      if (!turn.more) state.left.delete(turn.id);
      state.quarantine.recovered(turn.id);
      state.selected.ended(turn.id, turn.more ? "more" : "empty");
    }
  }
}

function settleFailure(
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
  const { budget, selection, concurrency, selected } = state;
  const slots = selection.sequential ? 1 : concurrency;
  while (state.running < slots && !budget.signal.aborted && budget.remainingMs() >= shortestTurnMs) {
    const id = nextTenant(state);
    if (id === undefined) return selected.nextMs?.();
    state.running++;
    state.turns++;
    void startTurn(state, id).then((turn) => {
      state.ended.push(turn);
      state.resume();
    });
  }
  return undefined;
}

/** A selection that goes in rounds may return a tenant that has failed in this run: it has no second turn. */
function nextTenant({ selected, failed, quarantine }: TenantRunState): string | undefined {
  for (;;) {
    const id = selected.next();
    if (id === undefined || !(failed.has(id) || quarantine.has(id))) return id;
    selected.ended(id, "failed");
  }
}

async function startTurn({ turn, turnMs, budget, timers }: TenantRunState, id: string): Promise<EndedTurn> {
  const ms = Math.min(turnMs, budget.remainingMs());
  try {
    const running = turn(id, turnBudget(budget, ms));
    return { id, more: await withinTime(ms + graceMs, running, () => turnTimeout(ms, turnMs), timers) };
  } catch (error) {
    return { id, error };
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

const turnTimeout = (ms: number, turnMs: number) =>
  new InvalidOperationError(
    ms < turnMs
      ? `The tenant's turn exceeded the run's remaining time (${Math.round(ms)} ms).`
      : `The tenant's turn exceeded turnMs (${turnMs} ms).`,
  );

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
