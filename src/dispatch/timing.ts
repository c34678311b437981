import type { Budget } from "../base/budget.js";
import { processTimers, yieldToEventLoop } from "../base/timers.js";
import type { QueueMessage } from "../queue/message.js";
import type { HandledCount } from "./counts.js";
import type { DispatcherConfig } from "./dispatcher.js";
import type { TopicPlan } from "./handlers.js";

/** The time of one run: time for handlers first, then a reserve to stop them and to settle. */
export interface RunTime {
  /** Left for handlers. Their signal fires when it is 0. */
  usableMs(): number;
  /** Left until handlers that ignore their signal are given up. */
  untilGivenUpMs(): number;
  /** Left until the run returns, settled or not. */
  untilReturnMs(): number;
  /** How long a call of the store is likely to take. */
  storeCallMs(): number;
  /** Records how long a call of the store took. */
  storeCallTook(ms: number): void;
}

/** The run returns this long before the deadline, settled or not, or twice the lateness of this machine's timers if that is more. */
const shortestMarginMs = 50;

/** With less, one pause of a busy machine could use all of a part. */
const shortestPartMs = 50;
/** A database that needs a longer reserve than this is not worth the wait. */
const longestReserveMs = 2_000;

/** Fast calls change the estimate only once in so many. */
const callsPerUpdate = 8;

/** A run may end with three calls in a row: acknowledge, release, abandon. */
const lastCalls = 3;

/**
 * The reserve is `reserveMs` where that is set. Otherwise it is learned from how long the store's calls take: one part for
 * handlers to stop, one for the last calls, and the margin. A learned reserve leaves at least half of the run to handlers.
 */
export function runTime(
  budget: Budget,
  fixedReserveMs: number | undefined,
  storeCalls: DurationEstimate,
  lateness: Pick<Lateness, "worstMs">,
): RunTime {
  const halfMs = budget.remainingMs() / 2;
  const marginMs = () => Math.max(shortestMarginMs, 2 * lateness.worstMs());
  let storeCallMs = 0;
  let lastCallsMs = 0;
  let unlearned = 0;
  const learn = (): void => {
    unlearned = 0;
    storeCallMs = storeCalls.quantileMs(0.9);
    lastCallsMs = Math.max(shortestPartMs, lastCalls * storeCallMs);
  };
  learn();
  const reserveMs = () => fixedReserveMs ?? Math.min(halfMs, longestReserveMs, marginMs() + 2 * lastCallsMs);
  const returnMs = () => Math.min(marginMs(), reserveMs() / 2);
  return {
    usableMs: () => budget.remainingMs() - reserveMs(),
    untilGivenUpMs: () => budget.remainingMs() - (reserveMs() + returnMs()) / 2,
    untilReturnMs: () => budget.remainingMs() - returnMs(),
    storeCallMs: () => storeCallMs,
    // A slow call counts at once, fast calls in groups: a fast database takes thousands of calls a second.
    storeCallTook(ms) {
      storeCalls.add(ms);
      if (ms > storeCallMs || ++unlearned >= callsPerUpdate) learn();
    },
  };
}

/** Until a call of the store has been measured it is expected to take this long, which makes a reserve of half a second. */
const expectedStoreCallMs = 75;

/** How long this store's calls took, over all runs of this dispatcher. */
export function storeCallsOf(store: object, known: WeakMap<object, DurationEstimate>): DurationEstimate {
  const storeCalls = known.get(store) ?? durationEstimate(expectedStoreCallMs);
  known.set(store, storeCalls);
  return storeCalls;
}

/** What a run knows about one topic, or about all topics of one pattern. */
export interface TopicRecord<Message, Tx> extends TopicPlan<Message, Tx> {
  /** Handlers of this topic that may run at once. */
  readonly maxConcurrency: number;
  readonly durations: DurationEstimate;
  /** Infinity: only the end of the run limits a handler. */
  readonly timeoutMs: number;
  readonly leaseMs: number;
  running: number;
  /** By how the handling ended. */
  readonly outcomes: Map<string, HandledCount>;
}

export interface TopicRecords<Message, Tx> {
  of(topic: string): TopicRecord<Message, Tx>;
  /** The mean duration of the fastest topic. */
  quickestMs(): number;
}

/**
 * A message is started when this fraction of its topic's recent handlers would have ended in the time that is left; see
 * docs/decisions/0007-what-fits-into-the-time.md.
 */
const likelyEnough = 0.8;

export const fitsInto = <Message, Tx>(record: TopicRecord<Message, Tx>, ms: number): boolean =>
  record.durations.fractionWithin(ms) >= likelyEnough;

export function topicRecords<Message extends QueueMessage, Tx>(
  config: DispatcherConfig<Message, Tx>,
  defaultTimeoutMs: number,
): TopicRecords<Message, Tx> {
  const records = new Map<string, TopicRecord<Message, Tx>>();
  /** The topic and record returned last: consecutive messages often have the same topic. */
  let last: { readonly topic: string; readonly record: TopicRecord<Message, Tx> } | undefined;

  /** Only topics with a handler are learned: the number of other topics has no bound. */
  const durationsOf = (topic: string, hasHandler: boolean): DurationEstimate => {
    if (!hasHandler) return durationEstimate(0);
    let durations = config.durations.get(topic);
    if (durations === undefined) {
      durations = durationEstimate(config.expectedHandlerMs);
      config.durations.set(topic, durations);
    }
    return durations;
  };

  const outcomesOf = (topic: string, hasHandler: boolean): Map<string, HandledCount> => {
    const outcomes = config.outcomes.get(topic) ?? new Map<string, HandledCount>();
    if (hasHandler) config.outcomes.set(topic, outcomes);
    return outcomes;
  };

  const newRecord = (plan: TopicPlan<Message, Tx>): TopicRecord<Message, Tx> => {
    const { name, handler } = plan;
    return {
      ...plan,
      maxConcurrency: handler?.concurrency ?? config.concurrency,
      durations: durationsOf(name, handler !== undefined),
      timeoutMs: handler?.timeoutMs ?? config.timeoutMs ?? defaultTimeoutMs,
      leaseMs: handler?.leaseMs ?? config.leaseMs,
      running: 0,
      outcomes: outcomesOf(name, handler !== undefined),
    };
  };

  return {
    of(topic) {
      if (last?.topic === topic) return last.record;
      const plan = config.planOf(topic);
      const record = records.get(plan.name) ?? newRecord(plan);
      records.set(plan.name, record);
      last = { topic, record };
      return record;
    },
    quickestMs() {
      let quickest = Number.POSITIVE_INFINITY;
      for (const topic of config.handlers.keys()) {
        quickest = Math.min(quickest, config.durations.get(topic)?.meanMs() ?? config.expectedHandlerMs);
      }
      // Without a handler there is none, and a worker's time is infinite, too: their ratio would not be a number.
      return Number.isFinite(quickest) ? quickest : config.expectedHandlerMs;
    },
  };
}

/** Learns from recent durations how long the next one is likely to take. */
export interface DurationEstimate {
  /** The fraction of the known durations, 0 to 1, that are at most `ms`. Until one is known, the guess counts. */
  fractionWithin(ms: number): number;
  /** The duration that this fraction of the known ones did not exceed. */
  quantileMs(fraction: number): number;
  meanMs(): number;
  add(ms: number): void;
  /** Forgets all known durations. */
  forget(): void;
}

/** Enough to tell one in ten from one in three, few enough to follow a change within seconds. */
const rememberedDurations = 32;

export function durationEstimate(guessMs: number): DurationEstimate {
  const last = new Float64Array(rememberedDurations);
  let known = 0;
  let next = 0;
  /** At least as long as every known duration. */
  let longest = 0;
  return {
    // Called before every start, so it counts instead of sorting.
    fractionWithin(ms) {
      if (known === 0) return guessMs <= ms ? 1 : 0;
      if (longest <= ms) return 1;
      let within = 0;
      for (let index = 0; index < known; index++) if (last[index]! <= ms) within++;
      return within / known;
    },
    quantileMs(fraction) {
      if (known === 0) return guessMs;
      return last.slice(0, known).sort()[Math.floor(fraction * (known - 1))]!;
    },
    meanMs() {
      if (known === 0) return guessMs;
      let sum = 0;
      for (let index = 0; index < known; index++) sum += last[index]!;
      return sum / known;
    },
    add(ms) {
      last[next] = ms;
      longest = next === 0 ? last.reduce((most, one) => Math.max(most, one), 0) : Math.max(longest, ms);
      next = (next + 1) % rememberedDurations;
      known = Math.min(known + 1, rememberedDurations);
    },
    forget() {
      last.fill(0);
      known = 0;
      next = 0;
    },
  };
}

/** When an empty queue is polled again: soon at first, then less and less often (idle back-off). */
export interface PollSchedule {
  /** Milliseconds until the next poll of a queue that was empty; 0 when one is due. */
  untilNextMs(now: number): number;
  /** Milliseconds until the database may be asked again after it failed. A wake-up does not shorten this wait. */
  untilRetryMs(now: number): number;
  /** A claim returned messages: the next empty one waits for the shortest time again. */
  foundMessages(): void;
  foundNothing(now: number): void;
  /** The database failed: the wait doubles with each failure in a row. */
  failed(now: number): void;
  /** There may be new messages: a poll is due at once, and the idle back-off starts again. */
  wake(): void;
  /** The full length of the current wait, not what is left of it. */
  waitMs(): number;
  /** The wait is over. */
  endWait(): void;
}

export interface PollIntervals {
  /** After the first poll that found nothing. */
  readonly pollMs: number;
  /** The longest wait: it doubles from `pollMs` up to this. */
  readonly idlePollMs: number;
}

export const defaultPollIntervals: PollIntervals = { pollMs: 500, idlePollMs: 5_000 };

export function pollSchedule({ pollMs, idlePollMs }: PollIntervals): PollSchedule {
  const longer = (ms: number): number => Math.min(ms * 2, Math.max(idlePollMs, pollMs));
  let nextWaitMs = pollMs;
  let nextRetryMs = pollMs;
  let presentWaitMs = 0;
  let dueAt = 0;
  let retryAt = 0;
  return {
    waitMs: () => presentWaitMs,
    untilNextMs: (now) => Math.max(0, dueAt - now),
    untilRetryMs: (now) => Math.max(0, retryAt - now),
    foundMessages() {
      nextRetryMs = pollMs;
      nextWaitMs = pollMs;
      dueAt = 0;
    },
    foundNothing(now) {
      nextRetryMs = pollMs;
      presentWaitMs = nextWaitMs;
      dueAt = now + presentWaitMs;
      nextWaitMs = longer(nextWaitMs);
    },
    failed(now) {
      presentWaitMs = nextRetryMs;
      retryAt = now + presentWaitMs;
      nextRetryMs = longer(nextRetryMs);
    },
    wake() {
      nextWaitMs = pollMs;
      dueAt = 0;
    },
    endWait() {
      dueAt = 0;
      retryAt = 0;
    },
  };
}

/** How late this process's timers fire: tens of milliseconds on a busy or throttled machine. */
export interface Lateness {
  /** The greatest recent lateness. */
  worstMs(): number;
  /** Measures until the returned function is called. */
  watch(): () => void;
}

const measureEveryMs = 20;

/** Learned over all runs of a dispatcher. Each run starts from half of the worst lateness so far. */
export function lateness(): Lateness {
  let worst = 0;
  return {
    worstMs: () => worst,
    watch() {
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
export interface Changes {
  notify(): void;
  /** Resolves to true at the next change, or at once if there was one since the last call; to false after `withinMs`. */
  next(withinMs: number): Promise<boolean>;
}

export function changes(): Changes {
  let changed = false;
  let resolve: (() => void) | undefined;
  return {
    notify() {
      changed = true;
      resolve?.();
    },
    async next(withinMs) {
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
