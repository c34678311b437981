import type { QueueMessage } from "../queue/message.js";
import { newOwnerToken, type OwnerToken } from "../queue/owner-token.js";
import {
  type HeldMessage,
  holdsSuspect,
  isStartable,
  isStopping,
  type Lease,
  loseLease,
  type RunState,
} from "./run-state.js";
import { describeThrown } from "./settlement.js";

/** Claims when there is room for more messages and a claim may find some. */
export function claimMore<Message extends QueueMessage, Tx>(run: RunState<Message, Tx>): void {
  if (run.isClaiming || !wantsMore(run)) return;
  run.isClaiming = true;
  void claim(run);
}

/** Whether the run can still claim and handle a message in the time that is left. The first claim is always tried. */
export const hasTimeToClaim = <Message extends QueueMessage, Tx>(run: RunState<Message, Tx>): boolean =>
  run.counts.claimed === 0 || run.topics.quickestMs() + run.time.storeCallMs() <= run.time.usableMs();

/**
 * Up to one batch of messages may wait for a topic or partition limit while the run claims others. A message that must be
 * handled alone stops claiming.
 */
function wantsMore<Message extends QueueMessage, Tx>(run: RunState<Message, Tx>): boolean {
  if (isStopping(run) || !hasTimeToClaim(run) || holdsSuspect(run)) return false;
  if (run.isDrained && run.polls.untilNextMs(performance.now()) > 0) return false;
  const { concurrency, batchSize } = run.config;
  const usableMs = run.time.usableMs();
  let startable = 0;
  for (const held of run.waiting) if (isStartable(run, held, usableMs)) startable++;
  return startable < concurrency && run.waiting.length - startable < batchSize;
}

async function claim<Message extends QueueMessage, Tx>(run: RunState<Message, Tx>): Promise<void> {
  const { store, config, logger, claimAbort } = run;
  const owner = newOwnerToken();
  const partitionSettlements = run.partitionSettlements;
  const startedAt = performance.now();
  try {
    const messages = await store.claim({
      owner,
      leaseMs: config.leaseMs,
      batchSize: claimSize(run),
      signal: claimAbort.signal,
    });
    const now = performance.now();
    run.time.storeCallTook(now - startedAt);
    run.counts.claimed += messages.length;
    // A settlement during this claim may have made the next message of its partition queue claimable. Then an empty claim
    // does not mean drained.
    run.isDrained = messages.length === 0 && partitionSettlements === run.partitionSettlements;
    if (messages.length > 0) run.polls.foundMessages();
    else if (run.isDrained) run.polls.foundNothing(now);
    keepClaimed(run, messages, owner, startedAt);
  } catch (error) {
    if (claimAbort.signal.aborted) return;
    run.fault ??= error;
    logger.error("claim failed", { error: describeThrown(error) });
  } finally {
    run.isClaiming = false;
    run.changed.notify();
  }
}

/** No more messages than the run could handle if all of them were of its fastest topic. */
function claimSize<Message extends QueueMessage, Tx>({
  time,
  topics,
  config,
}: RunState<Message, Tx>): number {
  const rounds = Math.ceil(time.usableMs() / Math.max(1, topics.quickestMs()));
  return Math.min(config.batchSize, Math.max(1, rounds) * config.concurrency);
}

/**
 * Takes the claimed messages. A message that this run holds already was claimed again because its lease expired:
 * - while it waited, only the new lease counts;
 * - while its handler runs, the handler is told to stop and the message is handled after it;
 * - while it is being settled, it is not handled again: its settlement is repeated under the new lease.
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
    const settling = run.settling.get(message.seq);
    if (settling !== undefined) {
      settling.laterLease = usual;
      continue;
    }
    const running = run.running.get(message.seq);
    if (running !== undefined) loseLease(run, running);
    const topic = run.topics.of(message.topic);
    run.waiting.push(newHeld(message, topic, leaseFor(topic.leaseMs)));
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

const newHeld = <Message, Tx>(
  message: Message,
  topic: HeldMessage<Message, Tx>["topic"],
  lease: Lease,
): HeldMessage<Message, Tx> => ({
  message,
  topic,
  lease,
  startedAt: 0,
  timeoutAt: Number.POSITIVE_INFINITY,
  warnAt: Number.POSITIVE_INFINITY,
  abort: undefined,
  stopReason: undefined,
  transaction: undefined,
  isCalled: false,
  isAcking: false,
  isLost: false,
  isEnded: false,
  decision: undefined,
  laterLease: undefined,
});
