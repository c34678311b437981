import { loggedError } from "../base/logged-error.js";
import { LeaseLostError } from "../queue/lease-lost-error.js";
import type { QueueMessage } from "../queue/message.js";
import { countMessages } from "./count-messages.js";
import type { Handled } from "./handle-message.js";
import { countHandled, handledCountOf } from "./handled-counts.js";
import { NotCalledError } from "./handler-transaction.js";
import { databaseFailed, type HeldMessage, letGo, type RunState, toSettling } from "./run-state.js";
import { decisionOf, type HandlingEnd } from "./settlement.js";

/** A handler has returned or thrown. Returns the time. */
export function handlerReturned<Message extends QueueMessage, Tx>(
  run: RunState<Message, Tx>,
  held: HeldMessage<Message, Tx>,
  handled: Handled,
): number {
  const end = endOf(held, handled.end);
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
function endOf<Message, Tx>({ stopReason }: HeldMessage<Message, Tx>, end: HandlingEnd): HandlingEnd {
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
export function decide<Message extends QueueMessage, Tx>(
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
  report(run, message, end);
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

function report<Message extends QueueMessage, Tx>(
  run: RunState<Message, Tx>,
  message: Message,
  end: HandlingEnd,
): void {
  const { logger } = run;
  if (end.kind === "ok" || end.kind === "ignored") return;
  const fields = run.fieldsOf(message);
  if (end.kind === "noHandler")
    logger.warn("no handler for this topic", { ...fields, otherwise: end.otherwise });
  else if (end.kind !== "error") logger.error("handler did not finish in time", { ...fields, end: end.kind });
  else if (end.error instanceof NotCalledError)
    logger.error("no transaction could be begun", { ...fields, error: end.error.reason });
  else logger.error("handler failed", { ...fields, ...loggedError(end.error) });
}
