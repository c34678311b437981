import { severalAtOnce } from "../base/several-at-once.js";
import type { QueueMessage } from "../queue/message.js";
import { type HeldMessage, type Lease, loseLease, type RunState } from "./run-state.js";
import { describeThrown } from "./settlement.js";
import { withDeadline } from "./store-deadline.js";

const callsAtOnce = 4;

/** Renews leases that have used a third of their length: of waiting, running and settling messages alike. */
export function renewLeases<Message extends QueueMessage, Tx>(run: RunState<Message, Tx>, now: number): void {
  if (run.isRenewing || now < run.nextRenewalAt) return;
  const due = leasesOf(run).filter(({ lease }) => lease.renewAt <= now);
  run.nextRenewalAt = nextRenewal(run);
  if (due.length === 0) return;
  run.isRenewing = true;
  void renewAll(run, due);
}

/** Milliseconds until `renewLeases` has something to do. */
export const untilNextRenewalMs = <Message extends QueueMessage, Tx>(
  run: RunState<Message, Tx>,
  now: number,
): number => (run.isRenewing ? Number.POSITIVE_INFINITY : Math.max(0, run.nextRenewalAt - now));

interface LeaseMessages<Message, Tx> {
  readonly lease: Lease;
  readonly messages: HeldMessage<Message, Tx>[];
}

function* heldMessages<Message extends QueueMessage, Tx>(
  run: RunState<Message, Tx>,
): Generator<HeldMessage<Message, Tx>> {
  yield* run.waiting;
  for (const held of run.running.values()) if (!held.isLost) yield held;
  yield* run.settling.values();
}

/**
 * By lease. Messages that are being acknowledged in a transaction are renewed apart: that waits for their commits, and the
 * others of the claim must not wait with them.
 */
function leasesOf<Message extends QueueMessage, Tx>(
  run: RunState<Message, Tx>,
): readonly LeaseMessages<Message, Tx>[] {
  const byLease = new Map<Lease, LeaseMessages<Message, Tx>>();
  const acking = new Map<Lease, LeaseMessages<Message, Tx>>();
  for (const held of heldMessages(run)) {
    const group = held.isAcking ? acking : byLease;
    const entry = group.get(held.lease);
    if (entry === undefined) group.set(held.lease, { lease: held.lease, messages: [held] });
    else entry.messages.push(held);
  }
  return [...byLease.values(), ...acking.values()];
}

function nextRenewal<Message extends QueueMessage, Tx>(run: RunState<Message, Tx>): number {
  let next = Number.POSITIVE_INFINITY;
  for (const { lease } of heldMessages(run)) next = Math.min(next, lease.renewAt);
  return next;
}

async function renewAll<Message extends QueueMessage, Tx>(
  run: RunState<Message, Tx>,
  due: readonly LeaseMessages<Message, Tx>[],
): Promise<void> {
  await severalAtOnce(due, callsAtOnce, (entry) => renew(run, entry));
  run.isRenewing = false;
  run.nextRenewalAt = nextRenewal(run);
  run.changed.notify();
}

async function renew<Message extends QueueMessage, Tx>(
  run: RunState<Message, Tx>,
  { lease, messages }: LeaseMessages<Message, Tx>,
): Promise<void> {
  const { owner, leaseMs } = lease;
  const startedAt = performance.now();
  try {
    const sent = messages.map(({ message }) => message);
    // Two renewals may fail before the lease ends.
    const { lost: lostMessages } = await withDeadline(leaseMs / 3, "A renewal", (signal) =>
      run.store.renew(owner, sent, leaseMs, { signal }),
    );
    const lost = new Set<unknown>(lostMessages);
    lease.expiresAt = startedAt + leaseMs;
    lease.renewAt = startedAt + leaseMs / 3;
    // A message may have been settled meanwhile: its settlement tells whether the lease was lost.
    for (const held of messages)
      if (lost.has(held.message) && !isBeingSettled(run, held) && isHeld(run, held)) loseLease(run, held);
  } catch (error) {
    lease.renewAt = performance.now() + leaseMs / 6;
    run.logger.error("renewing leases failed", { messages: messages.length, error: describeThrown(error) });
  }
}

const isBeingSettled = <Message extends QueueMessage, Tx>(
  run: RunState<Message, Tx>,
  { message, isAcking }: HeldMessage<Message, Tx>,
): boolean => isAcking || run.settling.has(message.seq);

const isHeld = <Message extends QueueMessage, Tx>(
  run: RunState<Message, Tx>,
  held: HeldMessage<Message, Tx>,
): boolean => run.running.get(held.message.seq) === held || run.waiting.includes(held);
