import { safeReason } from "../base/safe-reason.js";
import type { QueueMessage } from "../queue/message.js";
import { newOwnerToken, type OwnerToken } from "../queue/owner-token.js";
import { withDeadline } from "../queue/store-deadline.js";
import { countMessages } from "./count-messages.js";
import { newHeld } from "./new-held.js";
import {
  databaseFailed,
  holdsSuspect,
  isStartable,
  isStopping,
  type Lease,
  longestSlotWaitMs,
  loseLease,
  type RunState,
  untilBlockedMs,
} from "./run-state.js";

/** Results that cannot be stored, for example during a fail-over, are handled again: a run makes no more of them than this. */
const mostSettlingBatches = 4;

/** Claims when there is room for more messages and a claim may find some. */
export function claimMore<Message extends QueueMessage, Tx>(run: RunState<Message, Tx>): void {
  if (run.isClaiming || !wantsMore(run)) return;
  run.isClaiming = true;
  void claim(run);
}

/** Whether the run can still claim and handle a message in the time that is left. The first claim is always tried. */
export const hasTimeToClaim = <Message extends QueueMessage, Tx>(run: RunState<Message, Tx>): boolean =>
  run.counts.claimed === 0 || run.topics.quickestMs() + run.time.storeCallMs() <= run.time.usableMs();

/** Milliseconds until the queue may be polled: a wait after an empty claim, or after a fault of the database. */
export const untilPollMs = <Message extends QueueMessage, Tx>(
  { polls, isDrained }: RunState<Message, Tx>,
  now: number,
): number => Math.max(polls.untilRetryMs(now), isDrained ? polls.untilNextMs(now) : 0);

/**
 * Up to one batch of messages may wait for a topic or partition limit while the run claims others. A message that must be
 * handled alone stops claiming.
 */
function wantsMore<Message extends QueueMessage, Tx>(run: RunState<Message, Tx>): boolean {
  if (isStopping(run) || !hasTimeToClaim(run) || holdsSuspect(run)) return false;
  const now = performance.now();
  if (untilPollMs(run, now) > 0 || untilBlockedMs(run, now) <= 0) return false;
  const { concurrency, batchSize } = run.config;
  if (run.settling.size >= mostSettlingBatches * batchSize) return false;
  const usableMs = run.time.usableMs();
  let startable = 0;
  for (const held of run.waiting) if (isStartable(run, held, usableMs)) startable++;
  return startable < concurrency && run.waiting.length - startable < batchSize;
}

async function claim<Message extends QueueMessage, Tx>(run: RunState<Message, Tx>): Promise<void> {
  const { store, config, logger, claimAbort } = run;
  const owner = newOwnerToken();
  const { claimableEvents } = run;
  const startedAt = performance.now();
  try {
    const options = { owner, leaseMs: config.leaseMs, batchSize: claimSize(run) };
    const messages = await withDeadline(
      longestClaimMs(config),
      "A claim",
      (signal) => store.claim({ ...options, signal }),
      claimAbort.signal,
    );
    const now = performance.now();
    run.time.storeCallTook(now - startedAt);
    run.counts.claimed += messages.length;
    countMessages(run, "oncebox.claimed", messages.length);
    run.isDrained = messages.length === 0 && claimableEvents === run.claimableEvents;
    if (messages.length > 0) run.polls.foundMessages();
    else if (run.isDrained) run.polls.foundNothing(now);
    keepClaimed(run, messages, owner, startedAt);
  } catch (error) {
    if (claimAbort.signal.aborted) return;
    databaseFailed(run, error);
    logger.error("claim failed", { error: safeReason(error) });
  } finally {
    run.isClaiming = false;
    run.changed.notify();
  }
}

/** A claim that takes longer than its lease returns nothing that may be started. A short lease has a settlement's time. */
const longestClaimMs = ({ leaseMs, settleTimeoutMs }: { leaseMs: number; settleTimeoutMs: number }): number =>
  Math.max(leaseMs, settleTimeoutMs);

/** No more messages than the run could start soon, and in its time, if all of them were of its fastest topic. */
function claimSize<Message extends QueueMessage, Tx>({
  time,
  topics,
  config,
}: RunState<Message, Tx>): number {
  const soonMs = Math.min(time.usableMs(), longestSlotWaitMs);
  const rounds = Math.ceil(soonMs / Math.max(1, topics.quickestMs()));
  return Math.min(config.batchSize, Math.max(1, rounds) * config.concurrency);
}

/**
 * Takes the claimed messages. A message that this run holds already was claimed again because its lease expired:
 * - while it waited, only the new lease counts;
 * - while its handler runs, the handler is told to stop and the message is handled after it;
 * - while it is being settled, the new lease is held until the settlement tells whether the message was settled before
 *   the claim, or has to be settled under the new lease.
 */
function keepClaimed<Message extends QueueMessage, Tx>(
  run: RunState<Message, Tx>,
  messages: readonly Message[],
  owner: OwnerToken,
  claimedAt: number,
): void {
  if (messages.length === 0) return;
  if (run.waiting.length > 0) {
    const again = new Set(messages.map((message) => message.seq));
    run.waiting = run.waiting.filter((held) => !again.has(held.message.seq));
  }
  const { leaseMs } = run.config;
  const usual = leaseFrom(owner, leaseMs, claimedAt);
  run.nextRenewalAt = Math.min(run.nextRenewalAt, usual.renewAt);
  const longer = new Map<number, Lease>();
  const leaseFor = (topicLeaseMs: number): Lease => {
    if (topicLeaseMs <= leaseMs) return usual;
    const lease = longer.get(topicLeaseMs) ?? longerLease(usual, topicLeaseMs);
    longer.set(topicLeaseMs, lease);
    run.nextRenewalAt = 0;
    return lease;
  };
  for (const message of messages) {
    const topic = run.topics.of(message.topic);
    const held = newHeld(message, topic, leaseFor(topic.leaseMs));
    const settling = run.settling.get(message.seq);
    if (settling !== undefined) {
      settling.later = held;
      continue;
    }
    const running = run.running.get(message.seq);
    if (running !== undefined) loseLease(run, running);
    run.waiting.push(held);
  }
}

/** Renewed after a third of its length, so that a renewal may fail and be repeated. */
const leaseFrom = (owner: OwnerToken, leaseMs: number, from: number): Lease => ({
  owner,
  leaseMs,
  expiresAt: from + leaseMs,
  renewAt: from + leaseMs / 3,
  isRenewing: false,
});

/** The claim itself gives every message the usual lease, so a longer one is asked for at once. */
const longerLease = (usual: Lease, leaseMs: number): Lease => ({ ...usual, leaseMs, renewAt: 0 });
