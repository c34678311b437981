import type { Budget } from "../base/budget.js";
import { mustRunAlone } from "../queue/crashes.js";
import { queueName } from "../queue/measure-queue.js";
import type { QueueMessage } from "../queue/message.js";
import type { DispatchStore } from "../queue/work-store.js";
import { claimMore, hasTimeToClaim, untilPollMs } from "./claim-loop.js";
import type { DispatcherConfig } from "./dispatcher.js";
import { flushHandled } from "./handled-counts.js";
import { checkHandlers, untilNextCheckMs } from "./handler-timeouts.js";
import { renewLeases, untilNextRenewalMs } from "./leases.js";
import { newRun } from "./new-run.js";
import type { PollIntervals } from "./poll-schedule.js";
import { expectClaimable, isStopping, type RunCounts, type RunState } from "./run-state.js";
import { settleFinished } from "./settle-finished.js";
import { startWaiting, untilGivenBackMs } from "./starter.js";
import { fitsInto } from "./topic-records.js";
import { windDown } from "./wind-down.js";

export interface DispatchResult extends Readonly<RunCounts> {
  /** Why it ended: nothing was left, the time was used up, or it was told to stop. */
  readonly stopped: "drained" | "time" | "aborted";
}

/** Options of a run in a resident process, beside its budget. */
export interface RunOptions {
  /** Go on polling when nothing is left, until the budget ends. */
  readonly keepPolling?: boolean;
  /** How often the queue is polled while handlers run, or for as long as `keepPolling` says. */
  readonly poll?: PollIntervals;
  /** The time-out of handlers where neither their topic nor the dispatcher has one: none by default. */
  readonly defaultTimeoutMs?: number;
  /** Subscribes to wake-ups; each of them makes the run poll at once. Returns how to unsubscribe. */
  readonly onWake?: (wake: () => void) => () => void;
  /** Called when as many handlers ignore their signal as may run at once. */
  readonly onStuck?: () => void;
  /** Called when the database fails, and the run goes on. Without it the run ends and rejects with the fault. */
  readonly onFault?: (error: unknown) => void;
  /** For tests: replaces the wait of a run that holds no message. The signal fires when something has changed. */
  readonly pause?: ((ms: number, signal: AbortSignal) => Promise<void>) | undefined;
}

/** One run of a dispatcher over one store, from the first claim to the last settlement. */
export async function dispatchRun<Message extends QueueMessage, Tx>(
  store: DispatchStore<Message, Tx>,
  budget: Budget,
  config: DispatcherConfig<Message, Tx>,
  options: RunOptions = {},
): Promise<DispatchResult> {
  const run = newRun(store, budget, config, options);
  const fullRunMs = run.time.usableMs();
  const unsubscribe = options.onWake?.(() => {
    run.polls.wake();
    expectClaimable(run);
    run.changed.notify();
  });
  budget.signal.addEventListener("abort", run.changed.notify);
  // Without an end there is no deadline to be late for.
  const stopWatching = Number.isFinite(fullRunMs) ? config.lateness.watch() : undefined;
  try {
    await work(run, options);
  } finally {
    await windDown(run, fullRunMs);
    flushHandled(run);
    budget.signal.removeEventListener("abort", run.changed.notify);
    unsubscribe?.();
    stopWatching?.();
  }
  if (run.fault !== undefined) throw run.fault;
  const isAllDone = run.isDrained && !run.hasUnfinished;
  const stopped = budget.signal.aborted ? "aborted" : isAllDone ? "drained" : "time";
  config.metrics?.count("oncebox.runs", 1, { queue: queueName(store), stopped });
  return { ...run.counts, stopped };
}

/** The run's loop: start, settle, check, renew, claim; then wait for a change. */
async function work<Message extends QueueMessage, Tx>(
  run: RunState<Message, Tx>,
  { keepPolling = false, pause }: RunOptions,
): Promise<void> {
  for (;;) {
    startWaiting(run);
    settleFinished(run);
    flushHandled(run);
    const now = performance.now();
    checkHandlers(run, now);
    renewLeases(run, now);
    claimMore(run);
    if (isStopping(run) || !(keepPolling || canGoOn(run))) return;
    if (pause === undefined || isBusy(run)) await run.changed.next(untilNextStepMs(run, now));
    else await pauseInstead(run, pause);
  }
}

const isBusy = <Message extends QueueMessage, Tx>(run: RunState<Message, Tx>): boolean =>
  run.isClaiming || run.waiting.length + run.running.size + run.settling.size > 0;

async function pauseInstead<Message extends QueueMessage, Tx>(
  run: RunState<Message, Tx>,
  pause: NonNullable<RunOptions["pause"]>,
): Promise<void> {
  const changed = new AbortController();
  void run.changed.next(Number.POSITIVE_INFINITY).then(() => changed.abort());
  await pause(run.polls.waitMs(), changed.signal);
  if (!changed.signal.aborted) run.polls.endWait();
}

function canGoOn<Message extends QueueMessage, Tx>(run: RunState<Message, Tx>): boolean {
  if (run.isClaiming) return true;
  const usableMs = run.time.usableMs();
  if (run.waiting.length > 0)
    return run.waiting.some(({ message, topic }) => mustRunAlone(message) || fitsInto(topic, usableMs));
  // While handlers run, the queue is polled; a settled message may make the next one of its partition queue claimable.
  return (run.running.size > 0 || run.settling.size > 0) && hasTimeToClaim(run);
}

function untilNextStepMs<Message extends QueueMessage, Tx>(run: RunState<Message, Tx>, now: number): number {
  const pollMs = run.isClaiming ? 0 : untilPollMs(run, now);
  return Math.min(
    run.time.usableMs(),
    untilNextCheckMs(run, now),
    untilNextRenewalMs(run, now),
    untilGivenBackMs(run, now),
    pollMs > 0 ? Math.max(1, pollMs) : Number.POSITIVE_INFINITY, // 0: the next change decides
  );
}
