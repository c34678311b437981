import { loggedError } from "../base/logger.js";
import { LeaseLostError, mustRunAlone } from "../queue/leases.js";
import type { QueueMessage } from "../queue/message.js";
import {
  endHandlerTransaction,
  type Handled,
  handleMessage,
  handleTraced,
  NotCalledError,
} from "./handle-message.js";
import {
  countHandled,
  countMessages,
  databaseFailed,
  expectClaimable,
  type HeldMessage,
  handledCountOf,
  isStartable,
  isStopping,
  letGo,
  loseLease,
  type RunState,
  releaseWaiting,
  runsSuspect,
  tellToStop,
  toSettling,
  untilBlockedMs,
} from "./run-state.js";
import { decisionOf, type HandlingEnd } from "./settlement.js";
import { fitsInto } from "./timing.js";

/** How long handlers that return no promise may follow one another before timers, sockets and settlements are served. */
const sliceMs = 10;

/** Starts what can be started. What waits for slots that are blocked is given back: another worker may have a free one. */
export function startWaiting<Message extends QueueMessage, Tx>(run: RunState<Message, Tx>): void {
  if (run.waiting.length === 0 || isStopping(run)) return;
  const suspect = run.waiting.find((held) => mustRunAlone(held.message));
  if (suspect !== undefined) startAlone(run, suspect);
  else if (untilBlockedMs(run, performance.now()) <= 0) {
    releaseWaiting(run);
    expectClaimable(run);
  } else if (!runsSuspect(run)) startSlice(run);
}

/** Milliseconds until `startWaiting` gives messages back. */
export const untilGivenBackMs = <Message extends QueueMessage, Tx>(
  run: RunState<Message, Tx>,
  now: number,
): number =>
  run.waiting.length === 0 || run.waiting.some((held) => mustRunAlone(held.message))
    ? Number.POSITIVE_INFINITY
    : untilBlockedMs(run, now);

/**
 * Starts a message that may kill its process, when nothing else would be lost with it: other waiting messages are
 * released, and everything that runs or is being settled ends first. It stays among the waiting messages until then, so
 * its lease is renewed and can be lost like any other.
 */
function startAlone<Message extends QueueMessage, Tx>(
  run: RunState<Message, Tx>,
  suspect: HeldMessage<Message, Tx>,
): void {
  if (run.waiting.length > 1) releaseWaiting(run, suspect);
  if (run.running.size > 0 || run.settling.size > 0 || run.isClaiming) return;
  const now = performance.now();
  if (isExpired(run, suspect, now)) return;
  if (!fitsInto(suspect.topic, run.time.usableMs())) {
    run.suspectNotStarted = true;
    return;
  }
  run.waiting = [];
  startHandler(run, suspect, now);
}

/**
 * Starts waiting messages for up to a slice of time. With handlers that take microseconds, reading clocks is what costs: the
 * monotonic clock is read once for each message, the budget once in a millisecond.
 */
function startSlice<Message extends QueueMessage, Tx>(run: RunState<Message, Tx>): void {
  const { waiting, running, config } = run;
  let now = performance.now();
  let checkedAt = now;
  let usableMs = run.time.usableMs();
  const sliceEnd = now + sliceMs;
  const left: HeldMessage<Message, Tx>[] = [];
  for (const held of waiting) {
    if (now - checkedAt > 1) {
      checkedAt = now;
      usableMs = isStopping(run) ? 0 : run.time.usableMs();
    }
    const isFull = running.size >= config.concurrency || now > sliceEnd || usableMs <= 0;
    if (isFull || !isStartable(run, held, usableMs)) left.push(held);
    else if (!isExpired(run, held, now)) now = startHandler(run, held, now);
  }
  run.waiting = left; // only now: a lost lease replaces the list
  if (left.length > 0 && now > sliceEnd) setImmediate(run.changed.notify);
}

/** A process that was frozen may find that its leases are over: another worker may have such a message. */
function isExpired<Message extends QueueMessage, Tx>(
  run: RunState<Message, Tx>,
  held: HeldMessage<Message, Tx>,
  now: number,
): boolean {
  if (now < held.lease.expiresAt) return false;
  loseLease(run, held);
  return true;
}

/** Returns the time at which the handler returned or gave the thread back. */
function startHandler<Message extends QueueMessage, Tx>(
  run: RunState<Message, Tx>,
  held: HeldMessage<Message, Tx>,
  now: number,
): number {
  const { message, topic } = held;
  held.startedAt = now;
  run.lastStartAt = now;
  held.timeoutAt = now + topic.timeoutMs;
  held.warnAt = now + run.config.leaseMs;
  run.running.set(message.seq, held);
  topic.running++;
  if (message.partitionKey !== null) run.busyPartitions.add(message.partitionKey);
  if (run.logsEach) run.logger.info("handle", run.fieldsOf(message));
  const { tracing } = run.config;
  const handled = tracing === undefined ? handleMessage(run, held) : handleTraced(run, held, tracing);
  if (!(handled instanceof Promise)) return handlerReturned(run, held, handled);
  void handled.then((result) => handlerReturned(run, held, result));
  return performance.now();
}

/** A handler has returned or thrown. Returns the time. */
export function handlerReturned<Message extends QueueMessage, Tx>(
  run: RunState<Message, Tx>,
  held: HeldMessage<Message, Tx>,
  handled: Handled,
): number {
  const end = handlingEndOf(held, handled.end);
  const now = performance.now();
  const { durations } = held.topic;
  const tookMs = now - held.startedAt;
  // A handler that failed says nothing about the duration of one that succeeds.
  if (end.kind === "ok") durations.add(tookMs);
  run.config.metrics?.duration(
    "oncebox.handler.duration",
    tookMs,
    handledCountOf(held.topic, end).attributes,
  );
  if (held.isEnded) givenUpReturned(run, held);
  else decide(run, held, end, handled.isAcked);
  return now;
}

/** What a handler throws after it was told to stop is the consequence of that, and is reported so. */
function handlingEndOf<Message, Tx>({ stopReason }: HeldMessage<Message, Tx>, end: HandlingEnd): HandlingEnd {
  if (end.kind !== "error" || stopReason === undefined) return end;
  return stopReason instanceof LeaseLostError ? { kind: "error", error: stopReason } : { kind: "cutOff" };
}

function givenUpReturned<Message extends QueueMessage, Tx>(
  run: RunState<Message, Tx>,
  held: HeldMessage<Message, Tx>,
): void {
  if (run.givenUp.get(held)?.isReported) run.counts.stuck--;
  run.givenUp.delete(held);
}

/** Decides the outcome of a message whose handler has ended or is given up. */
function decide<Message extends QueueMessage, Tx>(
  run: RunState<Message, Tx>,
  held: HeldMessage<Message, Tx>,
  end: HandlingEnd,
  isAcked: boolean,
): void {
  const { message, topic } = held;
  held.isEnded = true;
  topic.running--;
  run.counts.handled++;
  run.running.delete(message.seq);
  // It would have taken at least so long. With less time left there is no need to try.
  if (end.kind === "cutOff" || end.kind === "timedOut")
    topic.durations.add(performance.now() - held.startedAt);
  countHandled(run, topic, end);
  logEnd(run, message, end);
  const error = end.kind === "error" ? end.error : undefined;
  if (isAcked) {
    run.counts.acked++; // even if a renewal found it lost: the acknowledgement was committed before the renewal
    countMessages(run, "oncebox.acked", 1);
    letGo(run, held);
  } else if (held.isLost || error instanceof LeaseLostError) {
    run.counts.lost++;
    countMessages(run, "oncebox.lease.lost", 1);
    letGo(run, held);
  } else if (error instanceof NotCalledError) {
    if (error.cause !== undefined) databaseFailed(run, error.cause);
    toSettling(run, held, { kind: "release" }); // the message was not tried
  } else {
    const retry = topic.handler?.retry ?? run.config.retry;
    toSettling(run, held, decisionOf(end, message, retry, run.config.random));
  }
}

function logEnd<Message extends QueueMessage, Tx>(
  run: RunState<Message, Tx>,
  message: Message,
  end: HandlingEnd,
): void {
  const { logger } = run;
  if (end.kind === "ok" || end.kind === "ignored") return;
  const fields = run.fieldsOf(message);
  if (end.kind === "noHandler")
    logger.warn("no handler for this topic", { ...fields, onUnhandled: end.onUnhandled });
  else if (end.kind !== "error") logger.error("handler did not finish in time", { ...fields, end: end.kind });
  else if (end.error instanceof NotCalledError)
    logger.error("no transaction could be begun", { ...fields, error: end.error.reason });
  else logger.error("handler failed", { ...fields, ...loggedError(end.error) });
}

/** How long a handler that was given up may take to return before it counts as stuck; no longer than its time-out. */
const longestGraceMs = 5_000;

/** Gives up handlers past their time-out, warns of slow ones, and reports those that ignore their signal. */
export function checkHandlers<Message extends QueueMessage, Tx>(
  run: RunState<Message, Tx>,
  now: number,
): void {
  for (const held of run.running.values()) {
    if (now >= held.timeoutAt) timeOut(run, held);
    else if (now >= held.warnAt) warnOfSlow(run, held, now);
  }
  for (const [held, entry] of run.givenUp) {
    if (entry.isReported || now < entry.stuckAt) continue;
    entry.isReported = true;
    reportStuck(run, held);
  }
}

/** Milliseconds until `checkHandlers` has something to do. */
export function untilNextCheckMs<Message extends QueueMessage, Tx>(
  run: RunState<Message, Tx>,
  now: number,
): number {
  let next = Number.POSITIVE_INFINITY;
  for (const held of run.running.values()) next = Math.min(next, held.timeoutAt, held.warnAt);
  for (const entry of run.givenUp.values()) if (!entry.isReported) next = Math.min(next, entry.stuckAt);
  return Math.max(0, next - now);
}

function timeOut<Message extends QueueMessage, Tx>(
  run: RunState<Message, Tx>,
  held: HeldMessage<Message, Tx>,
): void {
  const { timeoutMs } = held.topic;
  tellToStop(held, new DOMException(`The handler's ${timeoutMs} ms are over.`, "TimeoutError"));
  giveUp(run, held, { kind: "timedOut", afterMs: timeoutMs });
}

/** Decides the end of a handler that has not stopped. The handler may go on; the run does not wait for it. */
export function giveUp<Message extends QueueMessage, Tx>(
  run: RunState<Message, Tx>,
  held: HeldMessage<Message, Tx>,
  end: HandlingEnd,
): void {
  endHandlerTransaction(held);
  const isWaitingForTransaction = held.transaction !== undefined && !held.isCalled;
  const graceMs = Math.min(longestGraceMs, held.topic.timeoutMs);
  run.givenUp.set(held, { stuckAt: performance.now() + graceMs, isReported: false });
  decide(run, held, isWaitingForTransaction ? { kind: "error", error: new NotCalledError() } : end, false);
}

function warnOfSlow<Message extends QueueMessage, Tx>(
  run: RunState<Message, Tx>,
  held: HeldMessage<Message, Tx>,
  now: number,
): void {
  held.warnAt = Number.POSITIVE_INFINITY;
  const runningMs = Math.round(now - held.startedAt);
  run.logger.warn("handler is still running", { ...run.fieldsOf(held.message), runningMs });
}

function reportStuck<Message extends QueueMessage, Tx>(
  run: RunState<Message, Tx>,
  held: HeldMessage<Message, Tx>,
): void {
  const { counts, config, logger } = run;
  counts.stuck++;
  config.metrics?.count("oncebox.handler.stuck", 1, { topic: held.topic.name });
  logger.error("handler ignores its signal and still runs", run.fieldsOf(held.message));
  if (counts.stuck !== config.concurrency) return;
  logger.error("as many handlers are stuck as may run at once; restart this process", {
    stuck: counts.stuck,
  });
  if (!isStopping(run)) run.onStuck?.(); // a run that ends settles first
}
