import type { QueueMessage } from "../queue/message.js";
import { checkHandlers, giveUp, untilNextCheckMs } from "./handler-timeouts.js";
import { renewLeases, untilNextRenewalMs } from "./leases.js";
import { type RunState, releaseWaiting, tellToStop } from "./run-state.js";
import { settleFinished } from "./settle-finished.js";
import { fitsInto } from "./topic-records.js";

/**
 * Ends a run. Nothing is started any more: waiting messages are released, handlers may finish while there is time, then they
 * are told to stop, then they are given up. Everything is settled as far as the time allows.
 */
export async function windDown<Message extends QueueMessage, Tx>(
  run: RunState<Message, Tx>,
  fullRunMs: number,
): Promise<void> {
  forgetTooSlowTopics(run, fullRunMs);
  const isQuiet = (): boolean => run.running.size === 0 && !run.isClaiming;
  await waitUntil(run, isQuiet, run.time.usableMs);
  run.hasUnfinished ||= run.running.size > 0;
  const reason = new DOMException("The function's time is up.", "TimeoutError");
  for (const held of run.running.values()) tellToStop(held, reason);
  await waitUntil(run, isQuiet, run.time.untilGivenUpMs);
  run.claimAbort.abort();
  for (const held of [...run.running.values()]) giveUp(run, held, { kind: "cutOff" });
  const isSettled = await waitUntil(run, () => run.settling.size === 0, run.time.untilReturnMs);
  // A database that does not respond must not keep the function past its end. The leases then end by themselves.
  if (!isSettled)
    run.logger.error("the time ended before everything was settled", { left: run.settling.size });
}

/** Releases, checks handlers, settles and renews until `isDone` or the time is over. Returns whether it is done. */
async function waitUntil<Message extends QueueMessage, Tx>(
  run: RunState<Message, Tx>,
  isDone: () => boolean,
  leftMs: () => number,
): Promise<boolean> {
  for (;;) {
    const now = performance.now();
    run.hasUnfinished ||= run.waiting.length > 0;
    releaseWaiting(run);
    checkHandlers(run, now);
    settleFinished(run);
    renewLeases(run, now);
    if (isDone()) return true;
    const left = leftMs();
    const untilStepMs = Math.min(untilNextCheckMs(run, now), untilNextRenewalMs(run, now));
    const hasChanged = left > 0 && (await run.changed.next(Math.min(left, untilStepMs)));
    if (!hasChanged && left <= untilStepMs) return false;
  }
}

/**
 * Forgets the measured durations of topics that would not fit even into a full run, so that the next run tries them: they
 * may be fast again.
 */
function forgetTooSlowTopics<Message extends QueueMessage, Tx>(
  run: RunState<Message, Tx>,
  fullRunMs: number,
): void {
  for (const { topic } of run.waiting) {
    if (fitsInto(topic, fullRunMs)) continue;
    const needsMs = Math.round(topic.durations.meanMs());
    run.logger.warn("too little time for this topic", {
      topic: topic.name,
      needsMs,
      hasMs: Math.round(fullRunMs),
    });
    topic.durations.forget();
  }
}
