import type { Budget } from "./budget.js";
import type { DispatcherConfig } from "./dispatcher.js";
import { durationEstimate } from "./duration-estimate.js";
import { handleMessage } from "./handle-message.js";
import { leaseKeeper } from "./lease-keeper.js";
import { withFields } from "./logger.js";
import type { QueueMessage } from "./message.js";
import { newOwnerToken } from "./owner-token.js";
import { withoutPayload } from "./redact.js";
import { type SettleCounts, settleBuffer } from "./settle-buffer.js";
import { describeThrown, type HandlingEnd, settlementOf } from "./settlement.js";
import type { DispatchStore } from "./work-store.js";

export interface DispatchResult extends Readonly<SettleCounts> {
  readonly claimed: number;
  readonly handled: number;
  /** Why it ended: nothing was left, the time was used up, or it was told to stop. */
  readonly stopped: "drained" | "time" | "aborted";
}

interface Running<Message> {
  readonly message: Message;
  readonly abort: AbortController;
  /** Its end has been decided without it: what it still does is not waited for. */
  givenUp: boolean;
  /** Its lease is gone: whatever comes of it, it is not this handler's to settle. */
  lost: boolean;
}

/** One run of a dispatcher over one store, from the first claim to the last settlement. */
export async function dispatchRun<Message extends QueueMessage, Tx>(
  store: DispatchStore<Message, Tx>,
  budget: Budget,
  config: DispatcherConfig<Message, Tx>,
): Promise<DispatchResult> {
  const owner = newOwnerToken();
  const logger = withFields(config.logger, { store: store.id });
  const counts = { acked: 0, abandoned: 0, failed: 0, released: 0, lost: 0 };
  const settling = settleBuffer(store, owner, counts, logger);
  const leases = leaseKeeper(store, owner, config, logger, (message) => loseLease(message));

  let unstarted: Message[] = [];
  const running = new Map<number, Running<Message>>();
  const runningByTopic = new Map<string, number>();
  let claiming: Promise<void> | undefined;
  /** Only when time is up: a claim given up on its way may have leased messages that nobody then has. */
  const claimAbort = new AbortController();
  let claimError: unknown;
  let drained = false;
  let claimed = 0;
  let leftOver = false;
  let handled = 0;
  let wake = (): void => {};

  /** Time for handlers: what is left after the reserve that the last settlements need. */
  const usableMs = () => budget.remainingMs() - config.reserveMs;
  const stopping = () => budget.signal.aborted || usableMs() <= 0 || claimError !== undefined;
  const estimateOf = (topic: string) => {
    let estimate = config.estimates.get(topic);
    if (estimate === undefined) {
      estimate = durationEstimate(config.firstGuessMs);
      config.estimates.set(topic, estimate);
    }
    return estimate;
  };
  /** With nothing else to wait for, the mean is good enough: otherwise a slow topic would never be tried again. */
  const fitsInTime = (topic: string) => {
    const estimate = estimateOf(topic);
    return (running.size === 0 ? estimate.meanMs() : estimate.likelyMs()) <= usableMs();
  };

  const claim = async (): Promise<void> => {
    try {
      const messages = await store.claim({
        owner,
        leaseMs: config.leaseMs,
        batchSize: config.batchSize,
        signal: claimAbort.signal,
      });
      claimed += messages.length;
      drained = messages.length === 0;
      // Our own lease expired under a handler that still runs: the message is handled again, but not before that ends.
      for (const message of messages) if (running.has(message.seq)) loseLease(message);
      leases.hold(messages);
      unstarted.push(...messages);
    } catch (error) {
      if (claimAbort.signal.aborted) return;
      claimError = error;
      logger.error("claim failed", { error: describeThrown(error) });
    }
  };

  const canStart = (message: Message): boolean => {
    if (running.has(message.seq)) return false;
    const handler = config.handlers.get(message.topic);
    const most = handler?.concurrency ?? config.concurrency;
    return (runningByTopic.get(message.topic) ?? 0) < most && fitsInTime(message.topic);
  };

  const start = (message: Message): void => {
    const entry: Running<Message> = { message, abort: new AbortController(), givenUp: false, lost: false };
    running.set(message.seq, entry);
    runningByTopic.set(message.topic, (runningByTopic.get(message.topic) ?? 0) + 1);
    void handle(entry);
  };

  const handle = async (entry: Running<Message>): Promise<void> => {
    const { message } = entry;
    const handler = config.handlers.get(message.topic);
    const startedAt = performance.now();
    logger.info("handle", { topic: message.topic, ...config.describe(message), attempt: message.attempt });
    const { end: reported, acked } = await handleMessage({
      message,
      handler,
      middleware: config.middleware,
      store: store.id,
      signal: entry.abort.signal,
      inTransaction: (work) => inAckingTransaction(message, work),
    });
    const end = reported.kind === "error" ? endAfterAbort(entry, reported) : reported;
    const tookMs = performance.now() - startedAt;
    if (end.kind === "ok") estimateOf(message.topic).add(tookMs);
    config.metrics.duration("oncebox.handler.duration", tookMs, { topic: message.topic, outcome: end.kind });
    if (!entry.givenUp) finish(entry, end, acked);
    wake();
  };

  /** What a handler throws after it was told to stop is our doing, and is reported as that. */
  const endAfterAbort = (entry: Running<Message>, end: HandlingEnd): HandlingEnd => {
    const { signal } = entry.abort;
    if (!signal.aborted) return end;
    return signal.reason instanceof LeaseLostError
      ? { kind: "error", error: signal.reason }
      : { kind: "cutOff" };
  };

  /** The handler's writes and the acknowledgement commit together, or the lease is lost and nothing does. */
  const inAckingTransaction = async (message: Message, work: (tx: Tx) => Promise<void>): Promise<void> => {
    let begun = false;
    try {
      await store.transaction(async (tx) => {
        begun = true;
        await work(tx);
        const { lost } = await store.ack(owner, [message], { tx });
        if (lost.length > 0) throw new LeaseLostError();
      });
    } catch (error) {
      throw begun ? error : new NotBegunError(error);
    }
  };

  const finish = (entry: Running<Message>, end: HandlingEnd, acked: boolean): void => {
    const { message } = entry;
    const handler = config.handlers.get(message.topic);
    entry.givenUp = true;
    running.delete(message.seq);
    runningByTopic.set(message.topic, (runningByTopic.get(message.topic) ?? 1) - 1);
    handled++;
    report(message, end);
    if (entry.lost || (end.kind === "error" && end.error instanceof LeaseLostError)) {
      counts.lost++; // the message may be ours again under a new lease: that one is not given up with this
      return;
    }
    leases.letGo(message);
    // without a connection the handler was not even called: that is no attempt of its
    if (end.kind === "error" && end.error instanceof NotBegunError)
      settling.add(message, { kind: "release" });
    else if (acked) counts.acked++;
    else
      settling.add(
        message,
        settlementOf(end, message.attempt, handler?.retry ?? config.retry, config.random),
      );
  };

  const report = (message: Message, end: HandlingEnd): void => {
    const fields = { topic: message.topic, ...config.describe(message), attempt: message.attempt };
    config.metrics.count("oncebox.handled", 1, { topic: message.topic, outcome: end.kind });
    if (end.kind === "noHandler") logger.warn("no handler for this topic", fields);
    if (end.kind === "error") {
      const error = withoutPayload(describeThrown(end.error), message.payload);
      logger.error("handler failed", { ...fields, error });
    }
    if (end.kind === "timedOut" || end.kind === "cutOff")
      logger.error("handler did not finish in time", { ...fields, end: end.kind });
  };

  const loseLease = (message: Message): void => {
    unstarted = unstarted.filter((other) => other.seq !== message.seq);
    const entry = running.get(message.seq);
    if (entry !== undefined) entry.lost = true;
    entry?.abort.abort(new LeaseLostError());
    logger.warn("lease lost", config.describe(message));
    wake();
  };

  const release = (messages: readonly Message[]): void => {
    for (const message of messages) {
      leases.letGo(message);
      settling.add(message, { kind: "release" });
    }
  };

  /** A message that may kill its process is handled when nothing else would be lost with it. */
  const startAlone = async (suspect: Message): Promise<void> => {
    release(unstarted.filter((other) => other !== suspect));
    unstarted = [];
    await settling.flush();
    if (stopping() || !fitsInTime(suspect.topic)) {
      release([suspect]);
      return;
    }
    start(suspect);
  };

  /** Starts what can be started, and claims ahead while handlers are busy. Resolves when something has changed. */
  const step = async (): Promise<void> => {
    const suspect = unstarted.find((message) => message.afterCrash);
    const alone = suspect !== undefined || [...running.values()].some((entry) => entry.message.afterCrash);
    if (suspect !== undefined && running.size === 0 && claiming === undefined) return startAlone(suspect);
    if (!alone) {
      const { concurrency } = config;
      unstarted = unstarted.filter((message) => {
        if (running.size >= concurrency || !canStart(message)) return true;
        start(message);
        return false;
      });
      if (claiming === undefined && wantsMore()) {
        claiming = claim().finally(() => {
          claiming = undefined;
          wake();
        });
      }
    }
    const changed = new Promise<void>((resolve) => {
      wake = resolve;
    });
    await Promise.race([changed, untilReserve()]);
  };

  /** The quickest topic, or one whose time is not known yet, would still fit. */
  const roomInTime = (): boolean => {
    if (stopping()) return false;
    const known = [...config.handlers.keys()].map(
      (topic) => config.estimates.get(topic)?.meanMs() ?? config.firstGuessMs,
    );
    return Math.min(...known, config.firstGuessMs) <= usableMs();
  };

  const isBusy = (): boolean => running.size > 0 || claiming !== undefined;
  /** Those that wait for their own topic's bound do not keep others from being claimed, up to a batch of them. */
  const wantsMore = (): boolean => {
    const startable = unstarted.filter(canStart).length;
    const waiting = unstarted.length - startable;
    return !drained && startable < config.concurrency && waiting < config.batchSize && roomInTime();
  };
  const canGoOn = (): boolean =>
    wantsMore() || unstarted.some((message) => message.afterCrash || canStart(message));

  let reserveTimer: NodeJS.Timeout | undefined;
  const untilReserve = (): Promise<void> =>
    new Promise((resolve) => {
      clearTimeout(reserveTimer);
      const ms = usableMs();
      if (ms < longestTimerMs) reserveTimer = setTimeout(resolve, Math.max(0, ms));
    });

  const onAbort = (): void => wake();
  budget.signal.addEventListener("abort", onAbort);
  try {
    while (!stopping() && (isBusy() || canGoOn())) await step();
  } finally {
    await windDown();
    budget.signal.removeEventListener("abort", onAbort);
    clearTimeout(reserveTimer);
    leases.stop();
  }
  if (claimError !== undefined) throw claimError;
  const stopped = budget.signal.aborted ? "aborted" : drained && !leftOver ? "drained" : "time";
  return { ...counts, claimed, handled, stopped };

  /** Nothing is started any more: hand back, let handlers finish while there is time, then stop them, settle. */
  async function windDown(): Promise<void> {
    leftOver = unstarted.length + running.size > 0;
    release(unstarted);
    unstarted = [];
    await until(
      () => !isBusy(),
      () => usableMs(),
    );
    for (const entry of running.values())
      entry.abort.abort(new DOMException("The function's time is up.", "TimeoutError"));
    await until(
      () => !isBusy(),
      () => budget.remainingMs() - config.reserveMs / 2,
    );
    claimAbort.abort();
    release(unstarted);
    unstarted = [];
    for (const entry of [...running.values()]) finish(entry, { kind: "cutOff" }, false);
    await flushInTime();
  }

  /** A database that does not answer must not keep the function past its end; the leases then end by themselves. */
  async function flushInTime(): Promise<void> {
    const ms = budget.remainingMs();
    if (ms >= longestTimerMs) return settling.flush();
    let timer: NodeJS.Timeout | undefined;
    const over = new Promise<"over">((resolve) => {
      timer = setTimeout(() => resolve("over"), Math.max(ms - settleMarginMs, 0));
    });
    const first = await Promise.race([settling.flush(), over]);
    clearTimeout(timer);
    if (first === "over") logger.error("the time ended before everything was settled", { store: store.id });
  }

  /** Waits for changes until the condition holds or the time is over. */
  async function until(condition: () => boolean, leftMs: () => number): Promise<void> {
    while (!condition()) {
      const ms = leftMs();
      if (ms <= 0) return;
      let timer: NodeJS.Timeout | undefined;
      const first = await new Promise<"changed" | "over">((resolve) => {
        wake = () => resolve("changed");
        if (ms < longestTimerMs) timer = setTimeout(() => resolve("over"), ms);
      });
      clearTimeout(timer);
      if (first === "over") return;
    }
  }
}

/** What is left for the function to return in. */
const settleMarginMs = 10;

/** Node's timers hold 31 bits. */
const longestTimerMs = 2 ** 31 - 1;

/** Another worker may have the message by now: what this one did for it is rolled back or ignored. */
export class LeaseLostError extends Error {
  readonly code = "ONCEBOX_LEASE_LOST";
  override readonly name = "LeaseLostError";

  constructor() {
    super("The lease on this message was lost to its expiry; another worker may be handling it.");
  }
}

/** No transaction was to be had, so the handler did not run. */
class NotBegunError extends Error {
  override readonly name = "NotBegunError";

  constructor(cause: unknown) {
    super(`No transaction could be begun: ${describeThrown(cause)}`, { cause });
  }
}
