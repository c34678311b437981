import type { Budget } from "../base/async.js";
import { processTimers, yieldToEventLoop } from "../base/async.js";

/** The run returns this long before the deadline, settled or not, or twice the lateness of this machine's timers if that is more. */
const shortestMarginMs = 50;
/** With less, one pause of a busy machine could use all of a part. */
const shortestPartMs = 50;
/** A database that needs a longer reserve than this is not worth the wait. */
const longestReserveMs = 2_000;
/** A run may end with three calls in a row: acknowledge, release, abandon. */
const lastCalls = 3;

export type RunTime = ReturnType<typeof runTime>;

/**
 * The time of one run: time for handlers first, then a reserve to stop them and to settle. The reserve is `reserveMs` where
 * that is set. Otherwise it is learned from how long the store's calls take: one part for handlers to stop, one for the last
 * calls, and the margin. A learned reserve leaves at least half of the run to handlers.
 */
export function runTime(
  budget: Budget,
  fixedReserveMs: number | undefined,
  storeCalls: DurationEstimate,
  lateness: Pick<Lateness, "worstMs">,
) {
  const halfMs = budget.remainingMs() / 2;
  let storeCallMs = storeCalls.quantileMs(0.9);
  const marginMs = () => Math.max(shortestMarginMs, 2 * lateness.worstMs());
  const lastCallsMs = () => Math.max(shortestPartMs, lastCalls * storeCallMs);
  const reserveMs = () =>
    fixedReserveMs ?? Math.min(halfMs, longestReserveMs, marginMs() + 2 * lastCallsMs());
  const returnMs = () => Math.min(marginMs(), reserveMs() / 2);
  return {
    /** Left for handlers. Their signal fires when it is 0. */
    usableMs: () => budget.remainingMs() - reserveMs(),
    /** Left until handlers that ignore their signal are given up. */
    untilGivenUpMs: () => budget.remainingMs() - (reserveMs() + returnMs()) / 2,
    /** Left until the run returns, settled or not. */
    untilReturnMs: () => budget.remainingMs() - returnMs(),
    /** How long a call of the store is likely to take. */
    storeCallMs: () => storeCallMs,
    storeCallTook(ms: number): void {
      storeCalls.add(ms);
      storeCallMs = storeCalls.quantileMs(0.9);
    },
  };
}

/** Enough to tell one in ten from one in three, few enough to follow a change within seconds. */
const rememberedDurations = 32;

export type DurationEstimate = ReturnType<typeof durationEstimate>;

/** Learns from recent durations how long the next one is likely to take. Until one is known, the guess counts. */
export function durationEstimate(guessMs: number) {
  let known: number[] = [];
  const durations = (): readonly number[] => (known.length === 0 ? [guessMs] : known);
  return {
    /** The fraction of the known durations, 0 to 1, that are at most `ms`. */
    fractionWithin(ms: number): number {
      let within = 0;
      for (const duration of durations()) if (duration <= ms) within++;
      return within / durations().length;
    },
    /** The duration that this fraction of the known ones did not exceed. */
    quantileMs: (fraction: number): number =>
      durations().toSorted((a, b) => a - b)[Math.floor(fraction * (durations().length - 1))]!,
    meanMs: (): number => durations().reduce((sum, duration) => sum + duration, 0) / durations().length,
    add(ms: number): void {
      known.push(ms);
      if (known.length > rememberedDurations) known.shift();
    },
    forget(): void {
      known = [];
    },
  };
}

export interface PollIntervals {
  /** After the first poll that found nothing. */
  readonly pollMs: number;
  /** The longest wait: it doubles from `pollMs` up to this. */
  readonly idlePollMs: number;
}

export const defaultPollIntervals: PollIntervals = { pollMs: 500, idlePollMs: 5_000 };

export type PollSchedule = ReturnType<typeof pollSchedule>;

/** When an empty queue is polled again: soon at first, then less and less often (idle back-off). */
export function pollSchedule({ pollMs, idlePollMs }: PollIntervals) {
  const longer = (ms: number): number => Math.min(ms * 2, Math.max(idlePollMs, pollMs));
  let nextWaitMs = pollMs;
  let nextRetryMs = pollMs;
  let dueAt = 0;
  let retryAt = 0;
  return {
    /** Milliseconds until the next poll of a queue that was empty; 0 when one is due. */
    untilNextMs: (now: number): number => Math.max(0, dueAt - now),
    /** Milliseconds until the database may be asked again after it failed. A wake-up does not shorten this wait. */
    untilRetryMs: (now: number): number => Math.max(0, retryAt - now),
    /** A claim returned messages: the next empty one waits for the shortest time again. */
    foundMessages(): void {
      nextRetryMs = pollMs;
      nextWaitMs = pollMs;
      dueAt = 0;
    },
    foundNothing(now: number): void {
      nextRetryMs = pollMs;
      dueAt = now + nextWaitMs;
      nextWaitMs = longer(nextWaitMs);
    },
    /** The database failed: the wait doubles with each failure in a row. */
    failed(now: number): void {
      retryAt = now + nextRetryMs;
      nextRetryMs = longer(nextRetryMs);
    },
    /** There may be new messages: a poll is due at once, and the idle back-off starts again. */
    wake(): void {
      nextWaitMs = pollMs;
      dueAt = 0;
    },
  };
}

const measureEveryMs = 20;

export type Lateness = ReturnType<typeof lateness>;

/**
 * How late this process's timers fire: tens of milliseconds on a busy or throttled machine. Learned over all runs of a
 * dispatcher. Each run starts from half of the worst lateness so far.
 */
export function lateness() {
  let worst = 0;
  return {
    worstMs: () => worst,
    /** Measures until the returned function is called. */
    watch(): () => void {
      worst /= 2;
      let last = performance.now();
      const timer = setInterval(() => {
        const now = performance.now();
        worst = Math.max(worst, now - last - measureEveryMs);
        last = now;
      }, measureEveryMs);
      timer.unref();
      return () => clearInterval(timer);
    },
  };
}

/** Wakes a waiting loop when something has changed. A change before the loop waits is kept for it. */
export function changes() {
  let changed = false;
  let resolve: (() => void) | undefined;
  return {
    notify(): void {
      changed = true;
      resolve?.();
    },
    /** Resolves to true at the next change, or at once if there was one since the last call; to false after `withinMs`. */
    async next(withinMs: number): Promise<boolean> {
      if (!changed && withinMs > 0) {
        let cancel = (): void => {};
        await new Promise<void>((done) => {
          resolve = done;
          cancel = processTimers.after(withinMs, done);
        });
        cancel();
        resolve = undefined;
      }
      // An embedded database resolves without leaving the event loop's current tick. Leave it here, so that timers and
      // sockets are served, and so that all changes of one tick count as one.
      await yieldToEventLoop();
      const hasChanged = changed;
      changed = false;
      return hasChanged;
    },
  };
}
