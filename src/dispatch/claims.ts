import { safeReason } from "../base/logger.js";
import { withDeadline } from "../base/timers.js";
import { newOwnerToken, type OwnerToken } from "../queue/leases.js";
import type { QueueMessage } from "../queue/message.js";
import {
  countMessages,
  databaseFailed,
  type HeldMessage,
  holdsSuspect,
  isStartable,
  isStopping,
  type Lease,
  longestSlotWaitMs,
  loseLease,
  newHeld,
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

/** Renews leases that have used a third of their length: of waiting, running and settling messages alike. */
export function renewLeases<Message extends QueueMessage, Tx>(run: RunState<Message, Tx>, now: number): void {
  if (now < run.nextRenewalAt) return;
  for (const entry of leasesOf(run)) if (entry.lease.renewAt <= now) void renew(run, entry);
  run.nextRenewalAt = nextRenewal(run);
}

/** Milliseconds until `renewLeases` has something to do. */
export const untilNextRenewalMs = <Message extends QueueMessage, Tx>(
  run: RunState<Message, Tx>,
  now: number,
): number => Math.max(0, run.nextRenewalAt - now);

interface LeaseMessages<Message, Tx> {
  readonly lease: Lease;
  readonly messages: HeldMessage<Message, Tx>[];
}

/** Messages under a lease that is not being renewed now. */
function* heldMessages<Message extends QueueMessage, Tx>(
  run: RunState<Message, Tx>,
): Generator<HeldMessage<Message, Tx>> {
  for (const held of run.waiting) if (!held.lease.isRenewing) yield held;
  for (const held of run.running.values()) if (!held.lease.isRenewing && !held.isLost) yield held;
  for (const settling of run.settling.values()) {
    const held = settling.later ?? settling;
    if (!held.lease.isRenewing) yield held;
  }
}

function leasesOf<Message extends QueueMessage, Tx>(
  run: RunState<Message, Tx>,
): readonly LeaseMessages<Message, Tx>[] {
  const byLease = new Map<Lease, LeaseMessages<Message, Tx>>();
  for (const held of heldMessages(run)) {
    const entry = byLease.get(held.lease);
    if (entry === undefined) byLease.set(held.lease, { lease: held.lease, messages: [held] });
    else entry.messages.push(held);
  }
  return [...byLease.values()];
}

function nextRenewal<Message extends QueueMessage, Tx>(run: RunState<Message, Tx>): number {
  let next = Number.POSITIVE_INFINITY;
  for (const { lease } of heldMessages(run)) next = Math.min(next, lease.renewAt);
  return next;
}

async function renew<Message extends QueueMessage, Tx>(
  run: RunState<Message, Tx>,
  { lease, messages }: LeaseMessages<Message, Tx>,
): Promise<void> {
  const { owner, leaseMs } = lease;
  const startedAt = performance.now();
  lease.isRenewing = true;
  try {
    const sent = messages.map(({ message }) => message);
    // After the third of the lease that has passed there is time for two renewals.
    const { lost: lostMessages } = await withDeadline(leaseMs / 4, "A renewal", (signal) =>
      run.store.renew(owner, sent, leaseMs, { signal }),
    );
    const lost = new Set<unknown>(lostMessages);
    lease.expiresAt = startedAt + leaseMs;
    lease.renewAt = startedAt + leaseMs / 3;
    for (const held of messages) if (lost.has(held.message)) notRenewed(run, held);
  } catch (error) {
    lease.renewAt = performance.now() + leaseMs / 12;
    run.logger.error("renewing leases failed", { messages: messages.length, error: safeReason(error) });
  } finally {
    lease.isRenewing = false;
    run.nextRenewalAt = Math.min(run.nextRenewalAt, lease.renewAt);
    run.changed.notify();
  }
}

function notRenewed<Message extends QueueMessage, Tx>(
  run: RunState<Message, Tx>,
  held: HeldMessage<Message, Tx>,
): void {
  const settling = run.settling.get(held.message.seq);
  // A message that is being settled may have been settled meanwhile: its settlement tells whether the lease was lost.
  if (settling === undefined && !held.isAcking && isHeld(run, held)) loseLease(run, held);
  else if (settling?.later === held) settling.later = undefined; // another worker has the message
}

const isHeld = <Message extends QueueMessage, Tx>(
  run: RunState<Message, Tx>,
  held: HeldMessage<Message, Tx>,
): boolean => run.running.get(held.message.seq) === held || run.waiting.includes(held);
