import { safeReason } from "../base/safe-reason.js";
import type { QueueMessage } from "../queue/message.js";
import { withDeadline } from "../queue/store-deadline.js";
import { type HeldMessage, type Lease, loseLease, type RunState } from "./run-state.js";

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
