import { type LogFields, loggedError, writes } from "../base/logger.js";
import { LeaseLostError } from "../queue/leases.js";
import type { QueueMessage } from "../queue/message.js";
import type { UnhandledTopics } from "./counts.js";
import { endHandlerTransaction, handleMessage, NotCalledError } from "./handle-message.js";
import { describeKey, type HeldMessage, type LeasedRunParts } from "./held-messages.js";
import { decisionOf, type HandlingEnd, hasOwnLogLine } from "./settlement.js";

/** How long a handler that was given up may take to return before it counts as stuck; no longer than its time-out. */
const longestGraceMs = 5_000;

/** What running handlers need of their run. */
interface HandlersHost extends LeasedRunParts {
  readonly unhandled: UnhandledTopics;
  /** No transaction could be begun for a handler. */
  readonly onDatabaseFault: (error: unknown) => void;
  /** As many handlers ignore their signal as may run at once. */
  readonly onAllStuck: () => void;
}

/** A handler that was given up at its time-out or at the run's end and has not returned since. */
interface GivenUpHandler {
  /** From then on it counts as stuck: it ignores its signal. */
  readonly stuckAt: number;
  isReported: boolean;
}

/** The handlers of a run: from the start of each to the decision how its message is settled. */
export class RunningHandlers {
  /** When a handler was last started, by the monotonic clock. */
  lastStartAt = Number.NEGATIVE_INFINITY;
  readonly #run: HandlersHost;
  readonly #givenUp = new Map<HeldMessage, GivenUpHandler>();
  /** Whether lines about each message go anywhere. Unless they do, not even their fields are put together. */
  readonly #logsEach: boolean;

  constructor(run: HandlersHost) {
    this.#run = run;
    this.#logsEach = writes(run.config.logger, "info");
  }

  start(held: HeldMessage): void {
    const { config, logger } = this.#run;
    const now = performance.now();
    this.lastStartAt = now;
    held.startedAt = now;
    held.warnAt = now + config.leaseMs;
    this.#run.held.running.set(held.message.seq, held);
    held.topic.running++;
    if (this.#logsEach) logger.info("handle", fieldsOf(held.message));
    const end = handleMessage(this.#run, held);
    if (end instanceof Promise) void end.then((awaited) => this.#returned(held, awaited));
    else this.#returned(held, end);
  }

  /** Gives up handlers past their time-out, warns of slow ones, and reports those that ignore their signal. */
  check(now: number): void {
    for (const held of this.#run.held.running.values()) {
      if (now >= timeoutAt(held)) this.#timeOut(held);
      else if (now >= held.warnAt) this.#warnOfSlow(held, now);
    }
    for (const [held, entry] of this.#givenUp) {
      if (entry.isReported || now < entry.stuckAt) continue;
      entry.isReported = true;
      this.#reportStuck(held);
    }
  }

  /** Milliseconds until `check` has something to do. */
  untilNextCheckMs(now: number): number {
    let next = Number.POSITIVE_INFINITY;
    for (const held of this.#run.held.running.values()) next = Math.min(next, timeoutAt(held), held.warnAt);
    for (const entry of this.#givenUp.values()) if (!entry.isReported) next = Math.min(next, entry.stuckAt);
    return Math.max(0, next - now);
  }

  abortAll(reason: Error): void {
    for (const held of this.#run.held.running.values()) held.abort.abort(reason);
  }

  /** At the end of the run. */
  giveUpAll(): void {
    for (const held of [...this.#run.held.running.values()]) this.#giveUp(held, { kind: "cutOff" });
  }

  /** A handler has returned or thrown. */
  #returned(held: HeldMessage, returned: HandlingEnd): void {
    const { counts } = this.#run;
    const end = handlingEndOf(held, returned);
    const tookMs = performance.now() - held.startedAt;
    // A handler that failed says nothing about the duration of one that succeeds.
    if (end.kind === "ok") held.topic.durations.add(tookMs);
    counts.handlerReturned(held.topic, end, tookMs);
    const givenUp = this.#givenUp.get(held);
    if (givenUp?.isReported) counts.total.stuck--;
    if (givenUp === undefined) this.#decide(held, end);
    else this.#givenUp.delete(held);
  }

  /** Decides the outcome of a message whose handler has ended or is given up. */
  #decide(held: HeldMessage, end: HandlingEnd): void {
    const { held: all, counts, config, unhandled, onDatabaseFault } = this.#run;
    const { message, topic } = held;
    topic.running--;
    all.running.delete(message.seq);
    // It would have taken at least so long. With less time left there is no need to try.
    if (end.kind === "cutOff" || end.kind === "timedOut")
      topic.durations.add(performance.now() - held.startedAt);
    counts.handled(topic, end);
    this.#logEnd(message, end);
    const error = end.kind === "error" ? end.error : undefined;
    if (end.kind === "ok" && end.isAcked) {
      counts.add("acked", 1); // even if a renewal found it lost: the acknowledgement was committed before the renewal
      all.forget(held);
    } else if (held.isLost || error instanceof LeaseLostError) {
      counts.add("lost", 1);
      all.forget(held);
    } else if (error instanceof NotCalledError) {
      if (error.cause !== undefined) onDatabaseFault(error.cause);
      all.settle(held, { kind: "release" }); // the message was not tried
    } else {
      if (isAckedUnhandled(end)) {
        counts.unhandled();
        unhandled.add(message);
      }
      all.settle(held, decisionOf(end, message, topic.retry, config.random));
    }
  }

  #logEnd(message: QueueMessage, end: HandlingEnd): void {
    if (end.kind === "ok" || end.kind === "ignored" || isAckedUnhandled(end)) return;
    if (end.kind === "error" && hasOwnLogLine(end.error)) return;
    const { logger } = this.#run;
    const fields = fieldsOf(message);
    if (end.kind === "noHandler")
      logger.warn("no handler for this topic", { ...fields, onUnhandled: end.onUnhandled });
    else if (end.kind !== "error")
      logger.error("handler did not finish in time", { ...fields, end: end.kind });
    else if (end.error instanceof NotCalledError)
      logger.error("no transaction could be begun", { ...fields, error: end.error.message });
    else logger.error("handler failed", { ...fields, ...loggedError(end.error) });
  }

  #timeOut(held: HeldMessage): void {
    const { timeoutMs } = held.topic;
    held.abort.abort(new DOMException(`The handler's ${timeoutMs} ms are over.`, "TimeoutError"));
    this.#giveUp(held, { kind: "timedOut", afterMs: timeoutMs });
  }

  /** Decides the end of a handler that has not stopped. The handler may go on; the run does not wait for it. */
  #giveUp(held: HeldMessage, end: HandlingEnd): void {
    endHandlerTransaction(held);
    const isWaitingForTransaction = held.transactionAbort !== undefined && !held.isCalled;
    const graceMs = Math.min(longestGraceMs, held.topic.timeoutMs);
    this.#givenUp.set(held, { stuckAt: performance.now() + graceMs, isReported: false });
    this.#decide(held, isWaitingForTransaction ? { kind: "error", error: new NotCalledError() } : end);
  }

  #warnOfSlow(held: HeldMessage, now: number): void {
    held.warnAt = Number.POSITIVE_INFINITY;
    const runningMs = Math.round(now - held.startedAt);
    this.#run.logger.warn("handler is still running", { ...fieldsOf(held.message), runningMs });
  }

  #reportStuck(held: HeldMessage): void {
    const { counts, config, logger, onAllStuck } = this.#run;
    counts.stuck(held.topic.name);
    logger.error("handler ignores its signal and still runs", fieldsOf(held.message));
    const { stuck } = counts.total;
    if (stuck !== config.concurrency) return;
    logger.error("as many handlers are stuck as may run at once; restart this process", { stuck });
    onAllStuck();
  }
}

/** It is reported once for its topic, and not for each message. */
const isAckedUnhandled = (end: HandlingEnd): boolean => end.kind === "noHandler" && end.onUnhandled === "ack";

const timeoutAt = ({ startedAt, topic }: HeldMessage): number => startedAt + topic.timeoutMs;

function fieldsOf(message: QueueMessage): LogFields {
  const { topic, attempt } = message;
  return { topic, ...describeKey(message), attempt };
}

/** What a handler throws after it was aborted is the consequence of that, and is reported so. */
function handlingEndOf(held: HeldMessage, end: HandlingEnd): HandlingEnd {
  if (end.kind !== "error" || !held.abort.signal.aborted) return end;
  const { reason } = held.abort.signal;
  return reason instanceof LeaseLostError ? { kind: "error", error: reason } : { kind: "cutOff" };
}
