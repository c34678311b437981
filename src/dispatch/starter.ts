import { mustRunAlone } from "../queue/crashes.js";
import type { QueueMessage } from "../queue/message.js";
import { handleMessage } from "./handle-message.js";
import { handleTraced } from "./handle-traced.js";
import { handlerReturned } from "./handler-end.js";
import {
  expectClaimable,
  type HeldMessage,
  isStartable,
  isStopping,
  loseLease,
  type RunState,
  releaseWaiting,
  runsSuspect,
  untilBlockedMs,
} from "./run-state.js";
import { fitsInto } from "./topic-records.js";

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
  start(run, suspect, now);
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
    else if (!isExpired(run, held, now)) now = start(run, held, now);
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
function start<Message extends QueueMessage, Tx>(
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
