import type { Budget } from "../base/budget.js";
import { type Logger, safeReason, withFields } from "../base/logger.js";
import { withDeadline } from "../base/timers.js";
import { LeaseLostError, mustRunAlone, newOwnerToken, type OwnerToken } from "../queue/leases.js";
import { queueName } from "../queue/maintenance.js";
import type { QueueMessage } from "../queue/message.js";
import type { DispatchStore } from "../queue/work-store.js";
import { Counts, type RunCounts } from "./counts.js";
import type { DispatcherConfig } from "./dispatcher.js";
import { abortHandler, type HeldMessage, HeldMessages, Leases, newHeld } from "./held-messages.js";
import { RunningHandlers } from "./running-handlers.js";
import { Settlements } from "./settlement.js";
import {
  changes,
  defaultPollIntervals,
  fitsInto,
  type PollIntervals,
  type PollSchedule,
  pollSchedule,
  type RunTime,
  runTime,
  storeCallsOf,
  type TopicRecords,
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

/** How long handlers that return no promise may follow one another before timers, sockets and settlements are served. */
const sliceMs = 10;

/** How long messages wait for a slot. Then another worker may have one, and this run's handlers take longer anyway. */
const longestSlotWaitMs = 1_000;

/** Results that cannot be stored, for example during a fail-over, are handled again: a run makes no more of them than this. */
const mostSettlingBatches = 4;

/**
 * One run of a dispatcher over one store, from the first claim to the last settlement. All that it holds is in `#held`; its
 * parts settle, renew and handle that.
 */
export class DispatchRun<Message extends QueueMessage, Tx> {
  readonly #store: DispatchStore<Message, Tx>;
  readonly #budget: Budget;
  readonly #config: DispatcherConfig<Message, Tx>;
  readonly #options: RunOptions;
  readonly #logger: Logger;
  readonly #time: RunTime;
  readonly #topics: TopicRecords<Message, Tx>;
  readonly #polls: PollSchedule;
  readonly #counts: Counts;
  /** Notified of every change that the loop may have to react to. */
  readonly #changed = changes();
  readonly #held: HeldMessages<Message, Tx>;
  readonly #leases: Leases<Message, Tx>;
  readonly #settlements: Settlements<Message, Tx>;
  readonly #handlers: RunningHandlers<Message, Tx>;

  #isAborted: boolean;
  #isClaiming = false;
  /** Aborts the claim that is under way. An aborted claim may leave leased messages behind, so it is used at the end only. */
  readonly #claimAbort = new AbortController();
  /** The last claim returned nothing, and nothing has changed since that could make a message claimable. */
  #isDrained = false;
  /** Messages may have become claimable since the claim under way was sent, so it cannot show that the queue is drained. */
  #mayHaveMissed = false;
  /** Messages were not handled because of time. */
  #hasUnfinished = false;
  /** A message that must be handled alone could not be started. Another claim would return it again. */
  #suspectNotStarted = false;
  /** The database cannot be used. The run settles what it can and rejects with this. */
  #fault: unknown;

  constructor(
    store: DispatchStore<Message, Tx>,
    budget: Budget,
    config: DispatcherConfig<Message, Tx>,
    options: RunOptions = {},
  ) {
    this.#store = store;
    this.#budget = budget;
    this.#config = config;
    this.#options = options;
    this.#isAborted = budget.signal.aborted;
    const { notify: onChange } = this.#changed;
    const logger = withFields(config.logger, { store: store.id });
    const counts = new Counts(config.metrics, queueName(store));
    const time = runTime(budget, config.reserveMs, storeCallsOf(store, config.storeCalls), config.lateness);
    const held = new HeldMessages<Message, Tx>(onChange, () => this.#expectMessages());
    const parts = { store, config, logger, counts, time, held, onChange };
    const leases = new Leases<Message, Tx>({ ...parts, onLost: (lost) => this.#loseLease(lost) });
    this.#logger = logger;
    this.#counts = counts;
    this.#time = time;
    this.#topics = topicRecords(config, options.defaultTimeoutMs ?? Number.POSITIVE_INFINITY);
    this.#polls = pollSchedule(options.poll ?? defaultPollIntervals);
    this.#held = held;
    this.#leases = leases;
    this.#settlements = new Settlements({ ...parts, leases });
    this.#handlers = new RunningHandlers({
      ...parts,
      beforeAck: (acked) => leases.renewApart([acked]),
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
    const abort = (): void => {
      this.#isAborted = true;
      this.#changed.notify();
    };
    signal.addEventListener("abort", abort);
    // Without an end there is no deadline to be late for.
    const stopWatching = Number.isFinite(fullRunMs) ? this.#config.lateness.watch() : undefined;
    try {
      await this.#loop();
    } finally {
      await this.#windDown(fullRunMs);
      this.#counts.flushHandled();
      signal.removeEventListener("abort", abort);
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
    const { keepPolling = false, pause } = this.#options;
    for (;;) {
      this.#startWaiting();
      this.#settlements.send();
      this.#counts.flushHandled();
      const now = performance.now();
      this.#handlers.check(now);
      this.#leases.renewDue(now);
      this.#claimMore();
      if (this.#isStopping() || !(keepPolling || this.#canGoOn())) return;
      const isBusy = this.#isClaiming || !this.#held.isEmpty;
      if (pause === undefined || isBusy) await this.#changed.next(this.#untilNextStepMs(now));
      else await this.#pauseInstead(pause);
    }
  }

  #isStopping(): boolean {
    return this.#mustStop() || this.#time.usableMs() <= 0;
  }

  /** Whether the run must stop though it has time left. */
  #mustStop(): boolean {
    return this.#isAborted || this.#fault !== undefined || this.#suspectNotStarted;
  }

  #canGoOn(): boolean {
    if (this.#isClaiming) return true;
    const { waiting, running, settling } = this.#held;
    const usableMs = this.#time.usableMs();
    if (waiting.length > 0)
      return waiting.some(({ message, topic }) => mustRunAlone(message) || fitsInto(topic, usableMs));
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
      canRelease ? this.#untilBlockedMs(now) : Number.POSITIVE_INFINITY,
      pollMs > 0 ? Math.max(1, pollMs) : Number.POSITIVE_INFINITY, // 0: the next change decides
    );
  }

  async #pauseInstead(pause: NonNullable<RunOptions["pause"]>): Promise<void> {
    const changed = new AbortController();
    void this.#changed.next(Number.POSITIVE_INFINITY).then(() => changed.abort());
    await pause(this.#polls.waitMs(), changed.signal);
    if (!changed.signal.aborted) this.#polls.endWait();
  }

  #wake(): void {
    this.#polls.wake();
    this.#expectMessages();
    this.#changed.notify();
  }

  /** A claim may find messages now: a wake-up came, or the first message of a partition queue was settled. */
  #expectMessages(): void {
    this.#mayHaveMissed = true;
    this.#isDrained = false;
  }

  /** Starts what can be started. What waits for slots that are blocked is released: another worker may have a free one. */
  #startWaiting(): void {
    const held = this.#held;
    if (held.waiting.length === 0 || this.#isStopping()) return;
    const suspect = held.waitingSuspect();
    if (suspect !== undefined) this.#startAlone(suspect);
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
  #startAlone(suspect: HeldMessage<Message, Tx>): void {
    const held = this.#held;
    if (held.waiting.length > 1) held.releaseWaiting(suspect);
    if (held.running.size > 0 || held.settling.size > 0 || this.#isClaiming) return;
    const now = performance.now();
    if (this.#isExpired(suspect, now)) return;
    if (!fitsInto(suspect.topic, this.#time.usableMs())) {
      this.#suspectNotStarted = true;
      return;
    }
    held.waiting = [];
    this.#handlers.start(suspect, now);
  }

  /**
   * Starts waiting messages for up to a slice of time. With handlers that take microseconds, reading clocks is what costs:
   * the monotonic clock is read once for each message, the budget once in a millisecond.
   */
  #startSlice(): void {
    const { waiting, running } = this.#held;
    const { concurrency } = this.#config;
    let now = performance.now();
    let checkedAt = now;
    let usableMs = this.#time.usableMs();
    const sliceEnd = now + sliceMs;
    const left: HeldMessage<Message, Tx>[] = [];
    for (const held of waiting) {
      if (now - checkedAt > 1) {
        checkedAt = now;
        usableMs = this.#time.usableMs();
      }
      const isFull = running.size >= concurrency || now > sliceEnd || usableMs <= 0;
      // A handler that has just run may have aborted the budget's signal.
      if (isFull || this.#mustStop() || !this.#isStartable(held, usableMs)) left.push(held);
      else if (!this.#isExpired(held, now)) now = this.#handlers.start(held, now);
    }
    this.#held.waiting = left; // only now: a lost lease replaces the list
    if (left.length > 0 && now > sliceEnd) setImmediate(this.#changed.notify);
  }

  /** Whether a waiting message may start now. The dispatcher's own `concurrency` is not checked here. */
  #isStartable({ message, topic }: HeldMessage<Message, Tx>, usableMs: number): boolean {
    return topic.running < topic.maxConcurrency && fitsInto(topic, usableMs) && this.#held.isFree(message);
  }

  /** A process that was frozen may find that its leases are over: another worker may have such a message. */
  #isExpired(held: HeldMessage<Message, Tx>, now: number): boolean {
    if (now < held.lease.expiresAt) return false;
    this.#loseLease(held);
    return true;
  }

  /**
   * The lease on a message has expired and may be another worker's. A running handler is aborted, and counts as lost when
   * it has ended; a waiting message counts at once.
   */
  #loseLease(held: HeldMessage<Message, Tx>): void {
    if (held.isLost) return;
    held.isLost = true;
    abortHandler(held, new LeaseLostError());
    if (!this.#held.isRunning(held)) {
      this.#held.waiting = this.#held.waiting.filter((other) => other !== held);
      this.#counts.add("lost", 1);
    }
    this.#logger.warn("lease lost", this.#config.describe(held.message));
    this.#changed.notify();
  }

  /** Claims when there is room for more messages and a claim may find some. */
  #claimMore(): void {
    if (this.#isClaiming || !this.#wantsMore()) return;
    this.#isClaiming = true;
    void this.#claim();
  }

  /**
   * Up to one batch of messages may wait for a topic or partition limit while the run claims others. A message that must
   * be handled alone stops claiming.
   */
  #wantsMore(): boolean {
    if (this.#isStopping() || !this.#hasTimeToClaim()) return false;
    const { waiting, settling } = this.#held;
    if (this.#held.runsSuspect() || this.#held.waitingSuspect() !== undefined) return false;
    const now = performance.now();
    if (this.#untilPollMs(now) > 0 || this.#untilBlockedMs(now) <= 0) return false;
    const { concurrency, batchSize } = this.#config;
    if (settling.size >= mostSettlingBatches * batchSize) return false;
    const usableMs = this.#time.usableMs();
    let startable = 0;
    for (const held of waiting) if (this.#isStartable(held, usableMs)) startable++;
    return startable < concurrency && waiting.length - startable < batchSize;
  }

  /** Whether the run can still claim and handle a message in the time that is left. The first claim is always tried. */
  #hasTimeToClaim(): boolean {
    if (this.#counts.total.claimed === 0) return true;
    return this.#topics.quickestMs() + this.#time.storeCallMs() <= this.#time.usableMs();
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
      this.#claimed(messages, performance.now(), claimedAt);
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
    const rounds = Math.ceil(soonMs / Math.max(1, this.#topics.quickestMs()));
    return Math.min(batchSize, Math.max(1, rounds) * concurrency);
  }

  #claimed({ length }: readonly Message[], now: number, sentAt: number): void {
    this.#time.storeCallTook(now - sentAt);
    this.#counts.add("claimed", length);
    this.#isDrained = length === 0 && !this.#mayHaveMissed;
    if (length > 0) this.#polls.foundMessages();
    else if (this.#isDrained) this.#polls.foundNothing(now);
  }

  /**
   * Takes the claimed messages. A message that this run holds already was claimed again because its lease expired:
   * - while it waited, only the new lease counts;
   * - while its handler runs, the handler is aborted and the message is handled after it;
   * - while it is being settled, the new lease is held until the settlement shows whether the message was settled before
   *   the claim, or has to be settled under the new lease.
   */
  #keep(messages: readonly Message[], owner: OwnerToken, claimedAt: number): void {
    if (messages.length === 0) return;
    const held = this.#held;
    if (held.waiting.length > 0) {
      const again = new Set(messages.map((message) => message.seq));
      held.waiting = held.waiting.filter(({ message }) => !again.has(message.seq));
    }
    const leaseFor = this.#leases.ofClaim(owner, this.#config.leaseMs, claimedAt);
    for (const message of messages) {
      const topic = this.#topics.of(message.topic);
      const claimed = newHeld(message, topic, leaseFor(topic.leaseMs));
      const settling = held.settling.get(message.seq);
      if (settling !== undefined) {
        settling.reclaimed = claimed;
        continue;
      }
      const running = held.running.get(message.seq);
      if (running !== undefined) this.#loseLease(running);
      held.waiting.push(claimed);
    }
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
      this.#logger.warn("too little time for this topic", {
        topic: topic.name,
        needsMs,
        hasMs: Math.round(fullRunMs),
      });
      topic.durations.forget();
    }
  }
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
