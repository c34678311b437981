import type { Budget } from "../base/budget.js";
import { withFields } from "../base/logger.js";
import type { QueueMessage } from "../queue/message.js";
import { newOwnerToken } from "../queue/owner-token.js";
import type { DispatchStore } from "../queue/work-store.js";
import { changes } from "./changes.js";
import type { DispatcherConfig } from "./dispatcher.js";
import { durationEstimate } from "./duration-estimate.js";
import { inFlight, type Outcome } from "./in-flight.js";
import { leaseKeeper } from "./lease-keeper.js";
import { runTime } from "./run-time.js";
import { type SettleCounts, settleBuffer } from "./settle-buffer.js";
import { describeThrown, settlementOf } from "./settlement.js";
import { fitsInto, type TopicRecord, topicRecords } from "./topic-records.js";

export interface DispatchResult extends Readonly<SettleCounts> {
  readonly claimed: number;
  readonly handled: number;
  /** Why it ended: nothing was left, the time was used up, or it was told to stop. */
  readonly stopped: "drained" | "time" | "aborted";
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
  const changed = changes();
  const time = runTime(budget, config.reserveMs, storeCallsOf(store, config), config.lateness);
  const records = topicRecords(config);
  const settling = settleBuffer(store, owner, counts, logger, time.storeCallTook);
  const running = inFlight(store, owner, config, logger, (message, record, outcome) =>
    onOutcome(message, record, outcome),
  );

  let unstarted: Message[] = [];
  const held = (): readonly Message[] => [...unstarted, ...running.held()];
  const leases = leaseKeeper(store, owner, config, logger, held, (message) => loseLease(message));
  let claiming = false;
  /** Only when time is up: a claim given up on its way may have leased messages that nobody then has. */
  const claimAbort = new AbortController();
  /** The database cannot be worked with: what is finished is kept, and the run ends with this. */
  let fault: unknown;
  let drained = false;
  let claimed = 0;
  let handled = 0;
  let leftOver = false;
  /** Messages with a partition key that have been started and are not settled: others wait for their turn. */
  let turns = 0;
  let turnsPassed = 0;
  let suspectLeft = false;
  const wholeMs = time.usableMs();

  const mustStop = (): boolean => budget.signal.aborted || fault !== undefined || suspectLeft;
  const stopping = (): boolean => mustStop() || time.usableMs() <= 0;

  const claim = async (): Promise<void> => {
    claiming = true;
    const passed = turnsPassed;
    try {
      const startedAt = performance.now();
      const batchSize = sizeOfClaim();
      const { signal } = claimAbort;
      const messages = await store.claim({ owner, leaseMs: config.leaseMs, batchSize, signal });
      time.storeCallTook(performance.now() - startedAt);
      claimed += messages.length;
      drained = messages.length === 0 && passed === turnsPassed;
      // Our own lease expired under a handler that still runs: the message is handled again, but not before that ends.
      for (const message of messages) if (running.has(message)) loseLease(message);
      keep(messages);
    } catch (error) {
      if (claimAbort.signal.aborted) return;
      fault = error;
      logger.error("claim failed", { error: describeThrown(error) });
    } finally {
      claiming = false;
      changed.notify();
    }
  };

  /** One that waits here and lost its lease is the same message as before: only the new lease is ours. */
  const keep = (messages: readonly Message[]): void => {
    if (unstarted.length > 0) {
      const again = new Set(messages.map((message) => message.seq));
      unstarted = unstarted.filter((message) => !again.has(message.seq));
    }
    unstarted.push(...messages);
  };

  /** No more than could be handled if all of them were of the quickest topic. */
  const sizeOfClaim = (): number => {
    const rounds = Math.ceil(time.usableMs() / Math.max(1, records.quickestMs()));
    return Math.min(config.batchSize, Math.max(1, rounds) * config.concurrency);
  };

  /** Answers the time at which the handler returned, or gave the thread back. */
  const start = (message: Message, record: TopicRecord<Message, Tx>, now: number): number => {
    if (message.partitionKey !== null) turns++;
    return running.start(message, record, now);
  };

  /** When it is settled the next of its key may be claimed, so that there is something to claim again. */
  const passTurn = async (): Promise<void> => {
    await settling.flush();
    turns--;
    turnsPassed++; // a claim that is on its way may have come too early for the next one
    drained = false;
    changed.notify();
  };

  const onOutcome = (message: Message, record: TopicRecord<Message, Tx>, outcome: Outcome): void => {
    handled++;
    changed.notify();
    settle(message, record, outcome);
    if (message.partitionKey !== null) void passTurn();
  };

  const settle = (message: Message, record: TopicRecord<Message, Tx>, outcome: Outcome): void => {
    if (outcome.kind === "lost") counts.lost++;
    else if (outcome.kind === "acked") counts.acked++;
    else if (outcome.kind === "notBegun") {
      settling.add(message, { kind: "release" }); // it has not been tried
      fault ??= outcome.cause;
    } else {
      const retry = record.handler?.retry ?? config.retry;
      settling.add(message, settlementOf(outcome.end, message.attempt, retry, config.random));
    }
  };

  const loseLease = (message: Message): void => {
    unstarted = unstarted.filter((other) => other.seq !== message.seq);
    running.loseLease(message);
    logger.warn("lease lost", config.describe(message));
    changed.notify();
  };

  const releaseUnstarted = (): void => {
    for (const message of unstarted) settling.add(message, { kind: "release" });
    unstarted = [];
  };

  /** A message that may kill its process is handled when nothing else would be lost with it. */
  const startAlone = async (suspect: Message): Promise<void> => {
    unstarted = unstarted.filter((other) => other !== suspect);
    releaseUnstarted();
    const isSettled = await settledWithin(time.usableMs);
    const record = records.of(suspect.topic);
    if (isSettled && !stopping() && fitsInto(record, time.usableMs())) {
      start(suspect, record, performance.now());
      return;
    }
    unstarted = [suspect];
    suspectLeft = true; // the next claim would bring it again
  };

  const canStart = (message: Message, record: TopicRecord<Message, Tx>, usableMs: number): boolean =>
    record.running < record.most && !running.has(message) && fitsInto(record, usableMs);

  /**
   * Starts what can be started. Handlers that keep the thread let others have it from time to time. For those that take
   * microseconds, looking at the time is what costs: the clock is read once for each, the budget once in a millisecond.
   */
  const startWhatFits = (): void => {
    let now = performance.now();
    let lookedAt = now;
    let usableMs = time.usableMs();
    const turnEnds = now + turnMs;
    let kept = 0;
    for (let index = 0; index < unstarted.length; index++) {
      const message = unstarted[index]!;
      const record = records.of(message.topic);
      if (now - lookedAt > 1) {
        lookedAt = now;
        usableMs = time.usableMs();
      }
      const isFull = running.size >= config.concurrency || now > turnEnds || mustStop() || usableMs <= 0;
      if (!isFull && canStart(message, record, usableMs)) now = start(message, record, now);
      else unstarted[kept++] = message;
    }
    unstarted.length = kept;
    if (kept > 0 && now > turnEnds) setImmediate(changed.notify);
  };

  /** Starts, and claims ahead while handlers are busy. Resolves when something has changed. */
  const step = async (): Promise<void> => {
    const suspect = unstarted.find((message) => message.afterCrash);
    if (suspect !== undefined && running.size === 0 && !claiming) return startAlone(suspect);
    if (suspect === undefined && !running.hasSuspect()) {
      startWhatFits();
      if (!claiming && wantsMore()) void claim();
    }
    await changed.next(time.usableMs());
  };

  /** Those that wait for their own topic's bound do not keep others from being claimed, up to a batch of them. */
  const wantsMore = (): boolean => {
    const usableMs = time.usableMs();
    // The first claim finds out what there is.
    const hasRoom = claimed === 0 || records.quickestMs() + time.storeCallMs() <= usableMs;
    if (drained || !hasRoom || stopping()) return false;
    let startable = 0;
    for (const message of unstarted) if (canStart(message, records.of(message.topic), usableMs)) startable++;
    return startable < config.concurrency && unstarted.length - startable < config.batchSize;
  };

  const canGoOn = (): boolean => {
    const usableMs = time.usableMs();
    return (
      claiming ||
      turns > 0 ||
      wantsMore() ||
      unstarted.some((message) => message.afterCrash || fitsInto(records.of(message.topic), usableMs))
    );
  };

  /** Nothing is started any more: hand back, let handlers finish while there is time, then stop them, settle. */
  const windDown = async (): Promise<void> => {
    leftOver ||= unstarted.length > 0;
    forgetWhatNeverFits();
    releaseUnstarted();
    await untilQuiet(time.usableMs);
    leftOver ||= running.size > 0;
    running.abortAll();
    await untilQuiet(time.untilGivenUpMs);
    claimAbort.abort();
    leftOver ||= unstarted.length > 0;
    releaseUnstarted();
    running.giveUpAll();
    await flushInTime();
  };

  /** A topic that would not fit into a whole run is tried by the next: what was slow may be quick again. */
  const forgetWhatNeverFits = (): void => {
    for (const { topic } of unstarted) {
      const record = records.of(topic);
      if (fitsInto(record, wholeMs)) continue;
      const needsMs = Math.round(record.durations.meanMs());
      logger.warn("too little time for this topic", { topic, needsMs, hasMs: Math.round(wholeMs) });
      record.durations.forget();
    }
  };

  const untilQuiet = async (leftMs: () => number): Promise<void> => {
    while ((running.size > 0 || claiming) && leftMs() > 0) if (!(await changed.next(leftMs()))) return;
  };

  /** Whether everything was settled while there was time. */
  const settledWithin = async (leftMs: () => number): Promise<boolean> => {
    let isSettled = false;
    void settling.flush().then(() => {
      isSettled = true;
      changed.notify();
    });
    do await changed.next(leftMs());
    while (!isSettled && leftMs() > 0);
    return isSettled;
  };

  /** A database that does not answer must not keep the function past its end; the leases then end by themselves. */
  const flushInTime = async (): Promise<void> => {
    if (await settledWithin(time.untilReturnMs)) return;
    logger.error("the time ended before everything was settled", { store: store.id });
  };

  budget.signal.addEventListener("abort", changed.notify);
  const stopWatching = config.lateness.watch();
  try {
    while (!stopping() && canGoOn()) await step();
  } finally {
    await windDown();
    budget.signal.removeEventListener("abort", changed.notify);
    leases.stop();
    stopWatching();
  }
  if (fault !== undefined) throw fault;
  const stopped = budget.signal.aborted ? "aborted" : drained && !leftOver ? "drained" : "time";
  return { ...counts, claimed, handled, stopped };
}

/** How long handlers that return no promise may follow one another before acknowledgements, timers and others go on. */
const turnMs = 10;

/** Until an answer is known, one is taken to need this; it makes for a reserve of half a second. */
const firstAnswerMs = 75;

/** What was learned of this store's answers, over all runs of this dispatcher. */
function storeCallsOf<Message extends QueueMessage, Tx>(
  store: DispatchStore<Message, Tx>,
  config: DispatcherConfig<Message, Tx>,
) {
  let answers = config.storeCalls.get(store);
  if (answers === undefined) {
    answers = durationEstimate(firstAnswerMs);
    config.storeCalls.set(store, answers);
  }
  return answers;
}
