import type { QueueMessage } from "../queue/message.js";
import { decide } from "./handler-end.js";
import { endHandlerTransaction, NotCalledError } from "./handler-transaction.js";
import { type HeldMessage, isStopping, type RunState, tellToStop } from "./run-state.js";
import type { HandlingEnd } from "./settlement.js";

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
