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

/**
 * A message that its transaction is acknowledging is left out: a renewal would wait for the lock on its row, and the other
 * messages of the claim with it. Until the commit that lock keeps other workers away.
 */
function* heldMessages<Message extends QueueMessage, Tx>(
  run: RunState<Message, Tx>,
): Generator<HeldMessage<Message, Tx>> {
  yield* run.waiting;
  for (const held of run.running.values()) if (!held.isLost && !held.isAcking) yield held;
  yield* run.settling.values();
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
    // After the third of the lease that has passed there is time for two renewals.
    const { lost: lostMessages } = await withDeadline(leaseMs / 4, "A renewal", (signal) =>
      run.store.renew(owner, sent, leaseMs, { signal }),
    );
    const lost = new Set<unknown>(lostMessages);
    lease.expiresAt = startedAt + leaseMs;
    lease.renewAt = startedAt + leaseMs / 3;
    // A message may have been settled meanwhile: its settlement tells whether the lease was lost.
    for (const held of messages)
      if (lost.has(held.message) && !isBeingSettled(run, held) && isHeld(run, held)) loseLease(run, held);
  } catch (error) {
    lease.renewAt = performance.now() + leaseMs / 12;
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
