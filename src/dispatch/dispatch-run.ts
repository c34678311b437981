import type { Budget } from "../base/budget.js";
import { withFields, writes } from "../base/logger.js";
import { mustRunAlone } from "../queue/leases.js";
import { queueName } from "../queue/maintenance.js";
import type { QueueMessage } from "../queue/message.js";
import type { DispatchStore } from "../queue/work-store.js";
import { claimMore, hasTimeToClaim, renewLeases, untilNextRenewalMs, untilPollMs } from "./claims.js";
import type { DispatcherConfig } from "./dispatcher.js";
import {
  changes,
  expectClaimable,
  flushHandled,
  isStopping,
  type RunCounts,
  type RunState,
  releaseWaiting,
  tellToStop,
} from "./run-state.js";
import {
  checkHandlers,
  giveUp,
  startWaiting,
  untilGivenBackMs,
  untilNextCheckMs,
} from "./running-handlers.js";
import { settleFinished } from "./settlement.js";
import {
  type DurationEstimate,
  defaultPollIntervals,
  durationEstimate,
  fitsInto,
  type PollIntervals,
  pollSchedule,
  runTime,
  topicRecords,
} from "./timing.js";

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
    await runLoop(run, options);
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
async function runLoop<Message extends QueueMessage, Tx>(
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

/**
 * Ends a run. Nothing is started any more: waiting messages are released, handlers may finish while there is time, then they
 * are told to stop, then they are given up. Everything is settled as far as the time allows.
 */
export async function windDown<Message extends QueueMessage, Tx>(
  run: RunState<Message, Tx>,
  fullRunMs: number,
): Promise<void> {
  forgetTooSlowTopics(run, fullRunMs);
  const isQuiet = (): boolean => run.running.size === 0 && !run.isClaiming;
  await waitUntil(run, isQuiet, run.time.usableMs);
  run.hasUnfinished ||= run.running.size > 0;
  const reason = new DOMException("The function's time is up.", "TimeoutError");
  for (const held of run.running.values()) tellToStop(held, reason);
  await waitUntil(run, isQuiet, run.time.untilGivenUpMs);
  run.claimAbort.abort();
  for (const held of [...run.running.values()]) giveUp(run, held, { kind: "cutOff" });
  const isSettled = await waitUntil(run, () => run.settling.size === 0, run.time.untilReturnMs);
  // A database that does not respond must not keep the function past its end. The leases then end by themselves.
  if (!isSettled)
    run.logger.error("the time ended before everything was settled", { left: run.settling.size });
}

/** Releases, checks handlers, settles and renews until `isDone` or the time is over. Returns whether it is done. */
async function waitUntil<Message extends QueueMessage, Tx>(
  run: RunState<Message, Tx>,
  isDone: () => boolean,
  leftMs: () => number,
): Promise<boolean> {
  for (;;) {
    const now = performance.now();
    run.hasUnfinished ||= run.waiting.length > 0;
    releaseWaiting(run);
    checkHandlers(run, now);
    settleFinished(run);
    renewLeases(run, now);
    if (isDone()) return true;
    const left = leftMs();
    const untilStepMs = Math.min(untilNextCheckMs(run, now), untilNextRenewalMs(run, now));
    const hasChanged = left > 0 && (await run.changed.next(Math.min(left, untilStepMs)));
    if (!hasChanged && left <= untilStepMs) return false;
  }
}

/**
 * Forgets the measured durations of topics that would not fit even into a full run, so that the next run tries them: they
 * may be fast again.
 */
function forgetTooSlowTopics<Message extends QueueMessage, Tx>(
  run: RunState<Message, Tx>,
  fullRunMs: number,
): void {
  for (const { topic } of run.waiting) {
    if (fitsInto(topic, fullRunMs)) continue;
    const needsMs = Math.round(topic.durations.meanMs());
    run.logger.warn("too little time for this topic", {
      topic: topic.name,
      needsMs,
      hasMs: Math.round(fullRunMs),
    });
    topic.durations.forget();
  }
}

/** Until a call of the store has been measured it is expected to take this long, which makes a reserve of half a second. */
const expectedStoreCallMs = 75;

/** The state of a run that has claimed nothing yet. */
export function newRun<Message extends QueueMessage, Tx>(
  store: DispatchStore<Message, Tx>,
  budget: Budget,
  config: DispatcherConfig<Message, Tx>,
  options: RunOptions,
): RunState<Message, Tx> {
  return {
    store,
    config,
    budget,
    time: runTime(budget, config.reserveMs, storeCallsOf(store, config.storeCalls), config.lateness),
    logger: withFields(config.logger, { store: store.id }),
    topics: topicRecords(config, options.defaultTimeoutMs ?? Number.POSITIVE_INFINITY),
    polls: pollSchedule(options.poll ?? defaultPollIntervals),
    changed: changes(),
    counts: { claimed: 0, handled: 0, acked: 0, abandoned: 0, failed: 0, released: 0, lost: 0, stuck: 0 },
    logsEach: writes(config.logger, "info"),
    fieldsOf: (message) => ({ topic: message.topic, ...config.describe(message), attempt: message.attempt }),
    onStuck: options.onStuck,
    onFault: options.onFault,
    waiting: [],
    running: new Map(),
    settling: new Map(),
    unsent: [],
    busyPartitions: new Set(),
    givenUp: new Map(),
    uncounted: new Set(),
    lastStartAt: Number.NEGATIVE_INFINITY,
    isClaiming: false,
    isSettling: false,
    nextRenewalAt: Number.POSITIVE_INFINITY,
    claimAbort: new AbortController(),
    isDrained: false,
    claimableEvents: 0,
    hasUnfinished: false,
    suspectNotStarted: false,
    fault: undefined,
  };
}

/** How long this store's calls took, over all runs of this dispatcher. */
function storeCallsOf(store: object, known: WeakMap<object, DurationEstimate>): DurationEstimate {
  const storeCalls = known.get(store) ?? durationEstimate(expectedStoreCallMs);
  known.set(store, storeCalls);
  return storeCalls;
}

/**
 * Whether a run settled a message. A run that settled none (its time is too short for the next message, or other
 * processes hold the messages) would be followed by one that settles none either, and so on for ever: its work is left to
 * the timer. Failed messages count as progress, because their attempts come to an end.
 */
export const hasProgressed = ({
  inbox,
  outbox,
}: Readonly<Record<"inbox" | "outbox", DispatchResult | null>>) =>
  [inbox, outbox].some((result) => result !== null && result.acked + result.abandoned + result.failed > 0);

/** The sum of two runs. It stopped for the reason of the second. */
export function sumOfResults(a: DispatchResult | null, b: DispatchResult | null): DispatchResult | null {
  if (a === null || b === null) return a ?? b;
  const counts = Object.entries(b).map(([name, value]) =>
    typeof value === "number" ? [name, value + (a[name as keyof DispatchResult] as number)] : [name, value],
  );
  return Object.fromEntries(counts) as DispatchResult;
}
