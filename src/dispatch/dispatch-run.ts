import type { Budget } from "../base/async.js";
import { withDeadline } from "../base/async.js";
import { type Logger, safeReason, withFields } from "../base/logger.js";
import { isSuspect, newOwnerToken, type OwnerToken } from "../queue/leases.js";
import { queueName } from "../queue/maintenance.js";
import type { QueueMessage } from "../queue/message.js";
import type { DispatchStore } from "../queue/work-store.js";
import { Counts, type RunCounts, UnhandledTopics } from "./counts.js";
import type { DispatcherConfig } from "./dispatcher.js";
import { HeldMessage, HeldMessages, Leases, type RunTopic } from "./held-messages.js";
import { outboxOf, type ReturnOutbox } from "./returned-messages.js";
import { RunningHandlers } from "./running-handlers.js";
import { Settlements } from "./settlement.js";
import {
  changes,
  defaultPollIntervals,
  durationEstimate,
  type PollIntervals,
  type PollSchedule,
  pollSchedule,
  type RunTime,
  runTime,
} from "./timing.js";

/** What a run of a dispatcher did. */
export interface DispatchResult extends Readonly<RunCounts> {
  /** Why it ended: nothing was left, the time was used up, or it was stopped. */
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
  /** The outbox of this store's database, for a dispatcher that serves several: the one of `createDispatcher` by default. */
  readonly outbox?: ReturnOutbox | undefined;
  /** Subscribes to wake-ups; each of them makes the run poll at once. Returns how to unsubscribe. */
  readonly onWake?: (wake: () => void) => () => void;
  /** Called when as many handlers ignore their signal as may run at once. */
  readonly onStuck?: () => void;
  /** Called when the database fails, and the run goes on. Without it the run ends and rejects with the fault. */
  readonly onFault?: (error: unknown) => void;
}

/** How long handlers that return no promise may follow one another before timers, sockets and settlements are served. */
const sliceMs = 10;

/** How long messages wait for a slot. Then another worker may have one, and this run's handlers take longer anyway. */
const longestSlotWaitMs = 1_000;

/** Results that cannot be stored, for example during a fail-over, are handled again: a run makes no more of them than this. */
const maxSettlingBatches = 4;

/** Until a call of the store has been measured it is expected to take this long, which makes a reserve of half a second. */
const expectedStoreCallMs = 75;

/**
 * A message is started when this fraction of its topic's recent handlers would have ended in the time that is left; see
 * docs/decisions/0007-what-fits-into-the-time.md.
 */
const likelyEnough = 0.8;

/**
 * One run of a dispatcher over one store, from the first claim to the last settlement. All that it holds is in `#held`; its
 * parts settle, renew and handle that.
 */
export class DispatchRun {
  readonly #store: DispatchStore<QueueMessage>;
  readonly #budget: Budget;
  readonly #config: DispatcherConfig;
  readonly #options: RunOptions;
  readonly #logger: Logger;
  readonly #time: RunTime;
  readonly #topics = new Map<string, RunTopic>();
  readonly #polls: PollSchedule;
  readonly #counts: Counts;
  /** Notified of every change that the loop may have to react to. */
  readonly #changed = changes();
  readonly #held = new HeldMessages(this.#changed.notify, () => this.#expectMessages());
  readonly #leases: Leases;
  readonly #settlements: Settlements;
  readonly #unhandled: UnhandledTopics;
  readonly #handlers: RunningHandlers;

  #isClaiming = false;
  /** Aborts the claim that is under way. An aborted claim may leave leased messages behind, so it is used at the end only. */
  readonly #claimAbort = new AbortController();
  /** The last claim returned nothing, and nothing has changed since that could make a message claimable. */
  #isDrained = false;
  /** Messages may have become claimable since the claim under way was sent, so it cannot show that the queue is drained. */
  #mayHaveMissed = false;
  /** Messages were not handled because of time. */
  #hasUnfinished = false;
  /** A message that must be handled by itself could not be started. Another claim would return it again. */
  #suspectNotStarted = false;
  /** The database cannot be used. The run settles what it can and rejects with this. */
  #fault: unknown;

  constructor(
    store: DispatchStore<QueueMessage>,
    budget: Budget,
    config: DispatcherConfig,
    options: RunOptions = {},
  ) {
    this.#store = store;
    this.#budget = budget;
    this.#config = config;
    this.#options = options;
    this.#logger = withFields(config.logger, { store: store.id });
    this.#counts = new Counts(config.metrics, queueName(store));
    this.#polls = pollSchedule(options.poll ?? defaultPollIntervals);
    const storeCalls = config.storeCalls.get(store) ?? durationEstimate(expectedStoreCallMs);
    config.storeCalls.set(store, storeCalls);
    this.#time = runTime(budget, config.reserveMs, storeCalls, config.lateness);
    const shared = {
      store,
      config,
      outbox: outboxOf(store, options.outbox ?? config.outbox),
      logger: this.#logger,
      counts: this.#counts,
      time: this.#time,
      held: this.#held,
      onChange: this.#changed.notify,
    };
    this.#leases = new Leases(shared);
    this.#settlements = new Settlements({ ...shared, leases: this.#leases });
    this.#unhandled = new UnhandledTopics(shared);
    this.#handlers = new RunningHandlers({
      ...shared,
      unhandled: this.#unhandled,
      leases: this.#leases,
      onDatabaseFault: (error) => this.#databaseFailed(error),
      onAllStuck: () => {
        if (!this.#isStopping()) options.onStuck?.(); // a run that ends settles first
      },
    });
  }

  async run(): Promise<DispatchResult> {
    const { signal } = this.#budget;
    const fullRunMs = this.#time.usableMs();
    const unsubscribe = this.#options.onWake?.(() => this.#wake());
    signal.addEventListener("abort", this.#changed.notify);
    // Without an end there is no deadline to be late for.
    const stopWatching = Number.isFinite(fullRunMs) ? this.#config.lateness.watch() : undefined;
    try {
      await this.#loop();
    } finally {
      await this.#windDown(fullRunMs);
      this.#counts.flushHandled();
      await this.#unhandled.record(this.#time.untilReturnMs());
      signal.removeEventListener("abort", this.#changed.notify);
      unsubscribe?.();
      stopWatching?.();
    }
    if (this.#fault !== undefined) throw this.#fault;
    const isAllDone = this.#isDrained && !this.#hasUnfinished;
    const stopped = signal.aborted ? "aborted" : isAllDone ? "drained" : "time";
    this.#counts.runEnded(stopped);
    return { ...this.#counts.total, stopped };
  }

  /** Start, settle, check, renew, claim; then wait for a change. */
  async #loop(): Promise<void> {
    const { keepPolling = false } = this.#options;
    for (;;) {
      this.#startWaiting();
      this.#settlements.send();
      this.#counts.flushHandled();
      const now = performance.now();
      this.#unhandled.recordDue(now);
      this.#handlers.check(now);
      this.#leases.renewDue(now);
      this.#claimMore();
      if (this.#isStopping() || !(keepPolling || this.#canGoOn())) return;
      await this.#changed.next(this.#untilNextStepMs(now));
    }
  }

  #isStopping(): boolean {
    return this.#mustStop() || this.#time.usableMs() <= 0;
  }

  /** Whether the run must stop though it has time left. */
  #mustStop(): boolean {
    return this.#budget.signal.aborted || this.#fault !== undefined || this.#suspectNotStarted;
  }

  #canGoOn(): boolean {
    if (this.#isClaiming) return true;
    const { waiting, running, settling } = this.#held;
    const usableMs = this.#time.usableMs();
    if (waiting.length > 0)
      return waiting.some(({ message, topic }) => isSuspect(message) || fitsInto(topic, usableMs));
    // While handlers run, the queue is polled; a settled message may make the next one of its partition queue claimable.
    return (running.size > 0 || settling.size > 0) && this.#hasTimeToClaim();
  }

  #untilNextStepMs(now: number): number {
    const pollMs = this.#isClaiming ? 0 : this.#untilPollMs(now);
    const canRelease = this.#held.waiting.length > 0 && this.#held.waitingSuspect() === undefined;
    return Math.min(
      this.#time.usableMs(),
      this.#handlers.untilNextCheckMs(now),
      this.#leases.untilNextMs(now),
      this.#unhandled.untilDueMs(now),
      canRelease ? this.#untilBlockedMs(now) : Number.POSITIVE_INFINITY,
      pollMs > 0 ? Math.max(1, pollMs) : Number.POSITIVE_INFINITY, // 0: the next change decides
    );
  }

  #wake(): void {
    this.#polls.wake();
    this.#expectMessages();
    this.#changed.notify();
  }

  /** A claim may find messages now: a wake-up came, or the head of a partition queue was settled. */
  #expectMessages(): void {
    this.#mayHaveMissed = true;
    this.#isDrained = false;
  }

  /** Starts what can be started. What waits for slots that are blocked is released: another worker may have a free one. */
  #startWaiting(): void {
    const held = this.#held;
    if (held.waiting.length === 0 || this.#isStopping()) return;
    const suspect = held.waitingSuspect();
    if (suspect !== undefined) this.#startSuspect(suspect);
    else if (this.#untilBlockedMs(performance.now()) <= 0) {
      held.releaseWaiting();
      this.#expectMessages();
    } else if (!held.runsSuspect()) this.#startSlice();
  }

  /** Milliseconds until the slots count as blocked: all are taken, and none has become free for a while. */
  #untilBlockedMs(now: number): number {
    return this.#held.running.size < this.#config.concurrency
      ? Number.POSITIVE_INFINITY
      : Math.max(0, this.#handlers.lastStartAt + longestSlotWaitMs - now);
  }

  /**
   * Starts a message that may kill its process, when nothing else would be lost with it: other waiting messages are
   * released, and everything that runs or is being settled ends first. It stays among the waiting messages until then, so
   * its lease is renewed and can be lost like any other.
   */
  #startSuspect(suspect: HeldMessage): void {
    const held = this.#held;
    if (held.waiting.length > 1) held.releaseWaiting(suspect);
    if (held.running.size > 0 || held.settling.size > 0 || this.#isClaiming) return;
    if (this.#leases.isExpired(suspect, performance.now())) return;
    if (!fitsInto(suspect.topic, this.#time.usableMs())) {
      this.#suspectNotStarted = true;
      return;
    }
    held.waiting = [];
    this.#handlers.start(suspect);
  }

  /** Starts waiting messages for up to a slice of time. */
  #startSlice(): void {
    const { waiting, running } = this.#held;
    const sliceEnd = performance.now() + sliceMs;
    const left: HeldMessage[] = [];
    for (const held of waiting) {
      const now = performance.now();
      const usableMs = this.#time.usableMs();
      const isFull = running.size >= this.#config.concurrency || now > sliceEnd || usableMs <= 0;
      // A handler that has just run may have aborted the budget's signal.
      if (isFull || this.#mustStop() || !this.#isStartable(held, usableMs)) left.push(held);
      else if (!this.#leases.isExpired(held, now)) this.#handlers.start(held);
    }
    this.#held.waiting = left; // only now: a lost lease replaces the list
    if (left.length > 0 && performance.now() > sliceEnd) this.#changed.notify();
  }

  /** Whether a waiting message may start now. The dispatcher's own `concurrency` is not checked here. */
  #isStartable({ message, topic }: HeldMessage, usableMs: number): boolean {
    return topic.running < topic.concurrency && fitsInto(topic, usableMs) && this.#held.isUnblocked(message);
  }

  /** Claims when there is room for more messages and a claim may find some. */
  #claimMore(): void {
    if (this.#isClaiming || !this.#wantsMore()) return;
    this.#isClaiming = true;
    void this.#claim();
  }

  /**
   * Up to one batch of messages may wait for a topic or partition limit while the run claims others. A message that must
   * be handled by itself stops claiming.
   */
  #wantsMore(): boolean {
    if (this.#isStopping() || !this.#hasTimeToClaim()) return false;
    const { waiting, settling } = this.#held;
    if (this.#held.runsSuspect() || this.#held.waitingSuspect() !== undefined) return false;
    const now = performance.now();
    if (this.#untilPollMs(now) > 0 || this.#untilBlockedMs(now) <= 0) return false;
    const { concurrency, batchSize } = this.#config;
    if (settling.size >= maxSettlingBatches * batchSize) return false;
    const usableMs = this.#time.usableMs();
    const startable = waiting.filter((held) => this.#isStartable(held, usableMs)).length;
    return startable < concurrency && waiting.length - startable < batchSize;
  }

  /** Whether the run can still claim and handle a message in the time that is left. The first claim is always tried. */
  #hasTimeToClaim(): boolean {
    if (this.#counts.total.claimed === 0) return true;
    return this.#config.topics.quickestMs() + this.#time.storeCallMs() <= this.#time.usableMs();
  }

  /** Milliseconds until the queue may be polled: a wait after an empty claim, or after a fault of the database. */
  #untilPollMs(now: number): number {
    return Math.max(this.#polls.untilRetryMs(now), this.#isDrained ? this.#polls.untilNextMs(now) : 0);
  }

  async #claim(): Promise<void> {
    const { leaseMs, settleTimeoutMs } = this.#config;
    const claimAbort = this.#claimAbort.signal;
    const owner = newOwnerToken();
    const claimedAt = performance.now();
    this.#mayHaveMissed = false;
    try {
      const options = { owner, leaseMs, batchSize: this.#claimSize() };
      const messages = await withDeadline(
        Math.max(leaseMs, settleTimeoutMs), // what a claim returns after its lease may not be started
        "A claim",
        (signal) => this.#store.claim({ ...options, signal }),
        claimAbort,
      );
      this.#countClaim(messages.length, claimedAt);
      this.#keep(messages, owner, claimedAt);
    } catch (error) {
      if (claimAbort.aborted) return;
      this.#databaseFailed(error);
      this.#logger.error("claim failed", { error: safeReason(error) });
    } finally {
      this.#isClaiming = false;
      this.#changed.notify();
    }
  }

  /** No more messages than the run could start soon, and in its time, if all of them were of its fastest topic. */
  #claimSize(): number {
    const { batchSize, concurrency } = this.#config;
    const soonMs = Math.min(this.#time.usableMs(), longestSlotWaitMs);
    const rounds = Math.ceil(soonMs / Math.max(1, this.#config.topics.quickestMs()));
    return Math.min(batchSize, Math.max(1, rounds) * concurrency);
  }

  #countClaim(claimed: number, sentAt: number): void {
    const now = performance.now();
    this.#time.storeCallTook(now - sentAt);
    this.#counts.add("claimed", claimed);
    this.#isDrained = claimed === 0 && !this.#mayHaveMissed;
    if (claimed > 0) this.#polls.foundMessages();
    else if (this.#isDrained) this.#polls.foundNothing(now);
  }

  #keep(messages: readonly QueueMessage[], owner: OwnerToken, claimedAt: number): void {
    if (messages.length === 0) return;
    const leaseFor = this.#leases.ofClaim(owner, this.#config.leaseMs, claimedAt);
    const claimed = messages.map((message) => {
      const topic = this.#topicOf(message);
      return new HeldMessage(message, topic, leaseFor(topic.leaseMs));
    });
    this.#leases.take(claimed);
  }

  #topicOf(message: QueueMessage): RunTopic {
    const plan = this.#config.topics.of(message.topic);
    const timeoutMs = plan.timeoutMs ?? this.#options.defaultTimeoutMs ?? Number.POSITIVE_INFINITY;
    const topic = this.#topics.get(plan.name) ?? { ...plan, timeoutMs, running: 0 };
    this.#topics.set(plan.name, topic);
    return topic;
  }

  /**
   * The database cannot be used. A run that goes on polling asks it again after a wait: its handlers go on, and if it
   * ended, a slow one would keep it from claiming for long after the database is back. Any other run ends.
   */
  #databaseFailed(error: unknown): void {
    const { onFault } = this.#options;
    const now = performance.now();
    if (onFault === undefined) this.#fault ??= error;
    else if (this.#polls.untilRetryMs(now) === 0) {
      this.#polls.failed(now); // one fault fails many calls: the first of them is reported
      onFault(error);
    }
  }

  /**
   * Ends the run. Nothing is started any more: waiting messages are released, handlers may finish while there is time, then
   * they are aborted, then they are given up. Everything is settled as far as the time allows.
   */
  async #windDown(fullRunMs: number): Promise<void> {
    const { running, settling } = this.#held;
    this.#forgetTooSlowTopics(fullRunMs);
    const isQuiet = (): boolean => running.size === 0 && !this.#isClaiming;
    await this.#waitUntil(isQuiet, this.#time.usableMs);
    this.#hasUnfinished ||= running.size > 0;
    this.#handlers.abortAll(new DOMException("The function's time is up.", "TimeoutError"));
    await this.#waitUntil(isQuiet, this.#time.untilGivenUpMs);
    this.#claimAbort.abort();
    this.#handlers.giveUpAll();
    const isSettled = await this.#waitUntil(() => settling.size === 0, this.#time.untilReturnMs);
    // A database that does not respond must not keep the function past its end. The leases then end by themselves.
    if (!isSettled)
      this.#logger.error("the time ended before everything was settled", { left: settling.size });
  }

  /** Releases, checks handlers, settles and renews until `isDone` or the time is over. Returns whether it is done. */
  async #waitUntil(isDone: () => boolean, leftMs: () => number): Promise<boolean> {
    for (;;) {
      const now = performance.now();
      this.#hasUnfinished ||= this.#held.waiting.length > 0;
      this.#held.releaseWaiting();
      this.#handlers.check(now);
      this.#settlements.send();
      this.#leases.renewDue(now);
      if (isDone()) return true;
      const left = leftMs();
      const untilStepMs = Math.min(this.#handlers.untilNextCheckMs(now), this.#leases.untilNextMs(now));
      const hasChanged = left > 0 && (await this.#changed.next(Math.min(left, untilStepMs)));
      if (!hasChanged && left <= untilStepMs) return false;
    }
  }

  /**
   * Forgets the measured durations of topics that would not fit even into a full run, so that the next run tries them:
   * they may be fast again.
   */
  #forgetTooSlowTopics(fullRunMs: number): void {
    for (const { topic } of this.#held.waiting) {
      if (fitsInto(topic, fullRunMs)) continue;
      const needsMs = Math.round(topic.durations.meanMs());
      const hasMs = Math.round(fullRunMs);
      this.#logger.warn("too little time for this topic", { topic: topic.name, needsMs, hasMs });
      topic.durations.forget();
    }
  }
}

const fitsInto = ({ durations }: RunTopic, ms: number): boolean =>
  durations.fractionWithin(ms) >= likelyEnough;

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
