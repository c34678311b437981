import { withDeadline } from "../base/async.js";
import { type Logger, loggedError, safeReason } from "../base/logger.js";
import { withoutPayload } from "../base/redaction.js";
import { Counts } from "../dispatch/counts.js";
import { withData } from "../dispatch/handle-message.js";
import { describeKey, HeldMessage, HeldMessages, Leases, type RunTopic } from "../dispatch/held-messages.js";
import { type Decision, decisionOf, Settlements } from "../dispatch/settlement.js";
import { changes, durationEstimate } from "../dispatch/timing.js";
import { isSuspect, newOwnerToken, type OwnerToken } from "../queue/leases.js";
import type { QueueMessage } from "../queue/message.js";
import { schemaOf } from "../queue/topics.js";
import type { DispatchStore } from "../queue/work-store.js";
import type { QueueParts } from "../sql/store.js";
import type { ResolvedMessagesOptions, StreamedMessage } from "./messages.js";

/** A settlement that takes longer is tried again on another connection, and a loop that ends waits no longer for its last ones. */
const settleTimeoutMs = 10_000;
/** The longest wait between polls of a database that fails. */
const longestRetryMs = 5_000;

/**
 * The messages of one loop. It holds messages as a dispatcher's run does, and renews and settles them by the same parts. Only
 * what runs is different: a message runs while it is out, from when the loop takes it until it is settled.
 */
export class MessageStream implements AsyncIterator<StreamedMessage, undefined> {
  readonly #store: DispatchStore<QueueMessage>;
  readonly #options: ResolvedMessagesOptions;
  readonly #logger: Logger;
  readonly #isTransient: (error: unknown) => boolean;
  readonly #topic: RunTopic;
  readonly #counts: Counts;
  /** Notified of everything that `#live` may have to react to. */
  readonly #changed = changes();
  readonly #held = new HeldMessages(this.#changed.notify, () => this.#expectMessages());
  readonly #leases: Leases;
  readonly #settlements: Settlements;
  /** The calls of `next` that wait for a message, the first first. They get undefined at the end. */
  readonly #waiters: ((held: HeldMessage | undefined) => void)[] = [];

  #living: Promise<void> | undefined;
  #isEnded = false;
  /** `return` was called: by `break`, or by a throw in the loop. */
  #isReturned = false;
  /** The database cannot be used. `next` throws it. */
  #fault: { readonly error: unknown } | undefined;
  /** When the stream ends, settled or not. */
  #endsAt = Number.POSITIVE_INFINITY;

  #isClaiming = false;
  readonly #claimAbort = new AbortController();
  /** Messages may have become claimable since the claim under way was sent. */
  #mayHaveMissed = false;
  #pollAt = 0;
  #retryAt = 0;
  #retryMs: number;
  /** When the loop last took a message, or could have. */
  #lastTakenAt = 0;
  #hasWarned = false;

  constructor(parts: QueueParts, store: DispatchStore<QueueMessage>, options: ResolvedMessagesOptions) {
    const { logger, metrics, queue } = parts.options;
    this.#store = store;
    this.#options = options;
    this.#logger = logger;
    this.#isTransient = (error) => isTimeout(error) || parts.db.dialect.classify(error) !== "permanent";
    this.#topic = everyTopic(options);
    this.#retryMs = options.pollMs;
    this.#counts = new Counts(metrics, queue);
    const holder = {
      store,
      logger,
      counts: this.#counts,
      held: this.#held,
      onChange: this.#changed.notify,
    };
    this.#leases = new Leases(holder);
    this.#settlements = new Settlements({
      ...holder,
      leases: this.#leases,
      config: { settleTimeoutMs },
      time: { storeCallTook() {}, untilReturnMs: () => this.#endsAt - performance.now() },
    });
  }

  async next(): Promise<IteratorResult<StreamedMessage, undefined>> {
    for (;;) {
      const held = await this.#taken();
      if (held === undefined) return this.#end();
      const message = await this.#checked(held);
      const isOut = this.#held.isRunning(held); // not released while its schema was checked
      if (message !== undefined && isOut) return { done: false, value: this.#settleable(held, message) };
    }
  }

  async return(): Promise<IteratorResult<StreamedMessage, undefined>> {
    this.#isReturned = true;
    this.#changed.notify();
    await this.#living;
    return { done: true, value: undefined };
  }

  /** Of several calls that wait, the first throws the fault. */
  #end(): IteratorReturnResult<undefined> {
    const fault = this.#fault;
    this.#fault = undefined;
    if (fault !== undefined) throw fault.error;
    return { done: true, value: undefined };
  }

  #taken(): Promise<HeldMessage | undefined> {
    if (this.#isEnded) return Promise.resolve(undefined);
    return new Promise((resolve) => {
      this.#waiters.push(resolve);
      this.#living ??= this.#live();
      if (!this.#isStopping()) this.#handOut(performance.now());
      this.#changed.notify();
    });
  }

  /** The message with what its topic's schema makes of its payload. One that does not fit is settled, as before a handler. */
  async #checked(held: HeldMessage): Promise<QueueMessage | undefined> {
    const { message } = held;
    const schema = schemaOf(this.#store.topics, message.topic);
    if (schema === undefined) return message;
    try {
      return await withData(message, schema);
    } catch (error) {
      this.#logger.error("message does not fit its schema", {
        topic: message.topic,
        ...describeKey(message),
        ...loggedError(error),
      });
      void this.#settle(held, decisionOf({ kind: "error", error }, message, undefined));
      return undefined;
    }
  }

  #settleable(held: HeldMessage, message: QueueMessage): StreamedMessage {
    let first: { readonly call: "ack" | "nack"; readonly isStored: Promise<boolean> } | undefined;
    const settle = async (call: "ack" | "nack", decide: () => Decision): Promise<boolean> => {
      first ??= { call, isStored: this.#settle(held, decide()) };
      return first.call === call && first.isStored;
    };
    return Object.assign(message, {
      ack: () => settle("ack", () => ({ kind: "ack" })),
      nack: (reason: unknown) => settle("nack", () => nackDecision(reason, message)),
    }) as unknown as StreamedMessage;
  }

  /** Resolves to whether it was stored. What is no longer out is not ours to settle. */
  async #settle(held: HeldMessage, decision: Decision): Promise<boolean> {
    if (!this.#held.isRunning(held)) return false;
    this.#held.running.delete(held.message.seq);
    return new Promise((resolve) => {
      held.onSettled = resolve;
      this.#held.settle(held, decision);
    });
  }

  /** From the first message that is asked for until the loop has ended and everything is settled. */
  async #live(): Promise<void> {
    const { signal } = this.#options;
    signal?.addEventListener("abort", this.#changed.notify);
    for (;;) {
      const now = performance.now();
      this.#forgetLost();
      this.#abandonForgotten(now);
      if (this.#isStopping()) this.#giveBack(now);
      else {
        this.#releaseUntaken(now);
        this.#handOut(now);
      }
      this.#settlements.send();
      this.#leases.renewDue(now);
      this.#claimMore(now);
      if (this.#isOver()) break;
      await this.#changed.next(this.#untilNextStepMs(now));
    }
    signal?.removeEventListener("abort", this.#changed.notify);
    this.#isEnded = true;
    for (const resolve of this.#waiters.splice(0)) resolve(undefined);
  }

  #isStopping(): boolean {
    return this.#isReturned || this.#fault !== undefined || (this.#options.signal?.aborted ?? false);
  }

  #isOver(): boolean {
    if (this.#endsAt === Number.POSITIVE_INFINITY) return false;
    const { settling } = this.#held;
    if (settling.size === 0 && !this.#isClaiming) return true;
    if (performance.now() < this.#endsAt) return false;
    // A database that does not respond must not keep the loop. The leases then end by themselves.
    this.#claimAbort.abort();
    this.#logger.error("the loop over messages ended before everything was settled", {
      left: settling.size,
    });
    for (const { onSettled } of settling.values()) onSettled?.(false);
    return true;
  }

  #untilNextStepMs(now: number): number {
    const { waiting, running } = this.#held;
    let nextAt = Math.min(this.#endsAt, waiting.length > 0 ? this.#untakenUntil() : Number.POSITIVE_INFINITY);
    for (const { startedAt } of running.values())
      nextAt = Math.min(nextAt, startedAt + this.#options.timeoutMs);
    const pollAt = Math.max(this.#pollAt, this.#retryAt);
    if (this.#wantsMore() && pollAt > now) nextAt = Math.min(nextAt, pollAt);
    return Math.min(Math.max(1, nextAt - now), this.#leases.untilNextMs(now));
  }

  /** A message whose lease was lost is no longer out: it may be handed out again, here or elsewhere. */
  #forgetLost(): void {
    for (const held of [...this.#held.running.values()]) {
      if (!held.isLost) continue;
      this.#counts.add("lost", 1);
      this.#held.forget(held);
    }
  }

  #abandonForgotten(now: number): void {
    const { timeoutMs } = this.#options;
    for (const held of [...this.#held.running.values()]) {
      if (now < held.startedAt + timeoutMs) continue;
      this.#logger.warn("message was not settled in time", { ...describeKey(held.message), timeoutMs });
      const error = `It was neither acknowledged nor given back within ${timeoutMs} ms.`;
      void this.#settle(held, {
        kind: "abandon",
        error,
        delayMs: undefined,
        maxAttempts: undefined,
        costsAttempt: true,
      });
    }
  }

  /** While the loop is at a message for longer than a lease, others may have those that it has not taken. */
  #releaseUntaken(now: number): void {
    if (this.#held.waiting.length > 0 && now >= this.#untakenUntil()) this.#held.releaseWaiting();
  }

  #untakenUntil(): number {
    return this.#lastTakenAt + this.#options.leaseMs;
  }

  /** The loop is ending. What is out can be settled until it comes back for the next message, or leaves by `break`. */
  #giveBack(now: number): void {
    this.#held.releaseWaiting();
    if (!this.#isReturned && this.#waiters.length === 0) return;
    if (this.#endsAt === Number.POSITIVE_INFINITY) this.#endsAt = now + settleTimeoutMs;
    for (const held of [...this.#held.running.values()]) void this.#settle(held, { kind: "release" });
  }

  #handOut(now: number): void {
    while (this.#waiters.length > 0) {
      const held = this.#held.waiting.find((one) => this.#mayBeOut(one, now));
      if (held === undefined) return;
      this.#held.waiting = this.#held.waiting.filter((one) => one !== held);
      this.#held.running.set(held.message.seq, held);
      held.startedAt = now;
      this.#lastTakenAt = now;
      this.#waiters.shift()!(held);
    }
  }

  /** A message that may kill its process is out by itself, so that nothing else is lost with it. */
  #mayBeOut(one: HeldMessage, now: number): boolean {
    const { running, settling } = this.#held;
    if (this.#leases.isExpired(one, now)) return false;
    if (isSuspect(one.message)) return running.size === 0 && settling.size === 0;
    return this.#held.isUnblocked(one.message);
  }

  /** Claims only what the loop waits for: it has taken everything else. */
  #claimMore(now: number): void {
    if (!this.#wantsMore() || now < Math.max(this.#pollAt, this.#retryAt)) return;
    this.#isClaiming = true;
    void this.#claim();
  }

  #wantsMore(): boolean {
    if (this.#isStopping() || this.#isClaiming || this.#waiters.length === 0) return false;
    if (this.#held.waiting.length > 0 || this.#held.runsSuspect()) return false;
    if (this.#room() > 0) return true;
    if (this.#held.settling.size === 0) this.#warnOfStall();
    return false;
  }

  #room(): number {
    return this.#options.batchSize - this.#held.running.size - this.#held.settling.size;
  }

  /** The easiest mistake is to forget the acknowledgement. */
  #warnOfStall(): void {
    if (this.#hasWarned) return;
    this.#hasWarned = true;
    const { batchSize } = this.#options;
    this.#logger.warn("batchSize messages are out; more come when ack() or nack() is called", { batchSize });
  }

  async #claim(): Promise<void> {
    const { leaseMs } = this.#options;
    const owner = newOwnerToken();
    const claimedAt = performance.now();
    this.#mayHaveMissed = false;
    try {
      const options = { owner, leaseMs, batchSize: this.#room() };
      const messages = await withDeadline(
        Math.max(leaseMs, settleTimeoutMs), // what a claim returns after its lease may not be handed out
        "A claim",
        (signal) => this.#store.claim({ ...options, signal }),
        this.#claimAbort.signal,
      );
      this.#keep(messages, owner, claimedAt);
    } catch (error) {
      if (!this.#claimAbort.signal.aborted) this.#claimFailed(error);
    } finally {
      this.#isClaiming = false;
      this.#changed.notify();
    }
  }

  #keep(messages: readonly QueueMessage[], owner: OwnerToken, claimedAt: number): void {
    const { pollMs, leaseMs } = this.#options;
    const now = performance.now();
    this.#retryMs = pollMs;
    this.#pollAt = messages.length === 0 && !this.#mayHaveMissed ? now + pollMs : 0;
    this.#lastTakenAt = now;
    this.#counts.add("claimed", messages.length);
    if (messages.length === 0) return;
    const lease = this.#leases.ofClaim(owner, leaseMs, claimedAt)(leaseMs);
    this.#leases.take(messages.map((message) => new HeldMessage(message, this.#topic, lease)));
  }

  /** The store has already retried a transient fault a few times. */
  #claimFailed(error: unknown): void {
    this.#logger.error("claim failed", { error: safeReason(error) });
    if (!this.#isTransient(error)) {
      this.#fault = { error };
      return;
    }
    this.#retryAt = performance.now() + this.#retryMs;
    this.#retryMs = Math.min(2 * this.#retryMs, Math.max(longestRetryMs, this.#options.pollMs));
  }

  /** A message of a partition key was settled, so the next one may be claimable. */
  #expectMessages(): void {
    this.#mayHaveMissed = true;
    this.#pollAt = 0;
  }
}

/** As a handler's error, and a text as it is. */
function nackDecision(reason: unknown, message: QueueMessage): Decision {
  const decision = decisionOf({ kind: "error", error: reason }, message, undefined);
  return typeof reason === "string" && decision.kind === "abandon"
    ? { ...decision, error: withoutPayload(reason, message.payload) }
    : decision;
}

/** A claim that exceeded its deadline. */
const isTimeout = (error: unknown): boolean => error instanceof DOMException && error.name === "TimeoutError";

/** There are no handlers whose limits could differ. */
const everyTopic = ({ batchSize, leaseMs, timeoutMs }: ResolvedMessagesOptions): RunTopic => ({
  name: "*",
  handler: undefined,
  onUnhandled: "retry",
  concurrency: batchSize,
  timeoutMs,
  leaseMs,
  retry: undefined,
  durations: durationEstimate(0),
  attributes: new Map(),
  running: 0,
});
