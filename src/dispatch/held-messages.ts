import { withDeadline } from "../base/async.js";
import { type LogFields, type Logger, safeReason } from "../base/logger.js";
import { isSuspect, LeaseLostError, type OwnerToken } from "../queue/leases.js";
import type { QueueMessage } from "../queue/message.js";
import type { DispatchStore } from "../queue/work-store.js";
import type { Counts } from "./counts.js";
import type { DispatcherConfig } from "./dispatcher.js";
import type { TopicPlan } from "./handlers.js";
import type { ReturnOutbox } from "./returned-messages.js";
import type { Decision } from "./settlement.js";
import type { RunTime } from "./timing.js";

/** A message that a run holds, from its claim to its settlement. */
export class HeldMessage {
  /** When the handler started, and when a warning is due that it is slow: times of the monotonic clock. */
  startedAt = 0;
  warnAt = Number.POSITIVE_INFINITY;
  #abort: AbortController | undefined;
  /** Ends the handler's transaction. */
  transactionAbort: AbortController | undefined;
  /** The handler was called. With `transactional` that needs a transaction first. */
  isCalled = false;
  /** Its transaction is acknowledging it, and locks its row until the commit. */
  isAcking = false;
  /** The lease is gone, so the result is not ours to settle. */
  isLost = false;
  /** How the message is settled; set when its outcome is decided. */
  decision: Decision | undefined;
  /** The same message from a later claim, which arrived before the settlement was confirmed. It is held in place of this. */
  reclaimed: HeldMessage | undefined;
  /** Told whether the settlement was stored. Not where the lease was lost, or where it was tried until the lease was over. */
  onSettled: ((isStored: boolean) => void) | undefined;

  constructor(
    readonly message: QueueMessage,
    readonly topic: RunTopic,
    public lease: Lease,
  ) {}

  /** Of the handler's signal, which most handlers never read: it would cost more than all the rest of a fast message. */
  get abort(): AbortController {
    this.#abort ??= new AbortController();
    return this.#abort;
  }
}

/** What a run knows about one topic, or about all topics of one pattern. */
export interface RunTopic extends TopicPlan {
  /** Infinity: only the end of the run limits a handler. */
  readonly timeoutMs: number;
  running: number;
}

/**
 * One claim's lease. Each claim has an owner token of its own, so the settlement of an expired lease cannot end a newer
 * lease on the same message.
 */
export interface Lease {
  readonly owner: OwnerToken;
  readonly leaseMs: number;
  /** When it ends by this process's monotonic clock: never later than in the database. */
  expiresAt: number;
  renewAt: number;
  isRenewing: boolean;
}

/** An inbox message's source and id, or an outbox message's id. */
export function describeKey(message: QueueMessage): LogFields {
  const { source, messageId, id } = message as { source?: string; messageId?: string; id?: string };
  return source === undefined ? { id, messageId } : { source, messageId };
}

/** What a run holds: every message waits, runs or is being settled. */
export class HeldMessages {
  /** Claimed, not started, in the order of the claims. */
  waiting: HeldMessage[] = [];
  /** Started, by row number. A handler whose lease is lost stays here until it ends. */
  readonly running = new Map<number, HeldMessage>();
  /** Outcome decided, settlement not confirmed, by row number. These messages are still held and renewed. */
  readonly settling = new Map<number, HeldMessage>();
  /** The part of `settling` that has not been sent to the store. */
  toSettle: HeldMessage[] = [];
  readonly #onChange: () => void;
  readonly #onPartitionMoved: () => void;

  /** `onPartitionMoved`: the head of a partition queue was settled, so the next message is claimable. */
  constructor(onChange: () => void, onPartitionMoved: () => void) {
    this.#onChange = onChange;
    this.#onPartitionMoved = onPartitionMoved;
  }

  /** Whether neither an earlier handler of this message nor another message of its partition is in its way. */
  isUnblocked({ seq, partitionKey }: QueueMessage): boolean {
    if (this.running.has(seq)) return false;
    if (partitionKey === null) return true;
    for (const { message } of this.running.values()) if (message.partitionKey === partitionKey) return false;
    for (const { message } of this.settling.values()) if (message.partitionKey === partitionKey) return false;
    return true;
  }

  waitingSuspect(): HeldMessage | undefined {
    return this.waiting.find(({ message }) => isSuspect(message));
  }

  runsSuspect(): boolean {
    for (const { message } of this.running.values()) if (isSuspect(message)) return true;
    return false;
  }

  isRunning(held: HeldMessage): boolean {
    return this.running.get(held.message.seq) === held;
  }

  /** The message's outcome is decided: it waits for its settlement. */
  settle(held: HeldMessage, decision: Decision): void {
    held.decision = decision;
    this.settling.set(held.message.seq, held);
    this.toSettle.push(held);
    this.#onChange();
  }

  /** Gives waiting messages back to the queue, at no attempt. */
  releaseWaiting(except?: HeldMessage): void {
    const released = this.waiting.filter((held) => held !== except);
    this.waiting = except === undefined ? [] : [except];
    for (const held of released) this.settle(held, { kind: "release" });
  }

  /** The run no longer holds the message. */
  forget(held: HeldMessage): void {
    const { seq, partitionKey } = held.message;
    if (this.settling.get(seq) === held) this.settling.delete(seq);
    if (this.isRunning(held)) this.running.delete(seq);
    if (partitionKey !== null) this.#onPartitionMoved();
    this.#onChange();
  }
}

/** What leases need of whoever holds messages: a dispatcher's run, or a loop over the messages of an outbox. */
interface HolderParts {
  readonly store: DispatchStore<QueueMessage>;
  readonly logger: Logger;
  readonly counts: Counts;
  readonly held: HeldMessages;
  readonly onChange: () => void;
}

/** What settlements need. */
export interface SettlingParts extends HolderParts {
  readonly leases: Leases;
  readonly time: Pick<RunTime, "storeCallTook" | "untilReturnMs">;
  readonly config: Pick<DispatcherConfig, "settleTimeoutMs">;
}

/** What the parts of a dispatcher's run share. */
export interface LeasedRunParts extends SettlingParts {
  readonly config: DispatcherConfig;
  /** Where messages that handlers return are stored. */
  readonly outbox: ReturnOutbox | undefined;
}

/** Takes what was claimed, and renews the leases of everything that is held, from a third of their length on. */
export class Leases {
  #nextRenewalAt = Number.POSITIVE_INFINITY;
  readonly #run: HolderParts;

  constructor(run: HolderParts) {
    this.#run = run;
  }

  /**
   * The leases of one claim, by the length that a message's topic wants. The claim itself gives every message the usual
   * lease, so a longer one is asked for at once.
   */
  ofClaim(owner: OwnerToken, leaseMs: number, claimedAt: number): (topicLeaseMs: number) => Lease {
    const usual: Lease = {
      owner,
      leaseMs,
      expiresAt: claimedAt + leaseMs,
      renewAt: renewalOf(claimedAt, leaseMs),
      isRenewing: false,
    };
    this.#renewFrom(usual.renewAt);
    const longer = new Map<number, Lease>();
    return (topicLeaseMs) => {
      if (topicLeaseMs <= leaseMs) return usual;
      const lease = longer.get(topicLeaseMs) ?? { ...usual, leaseMs: topicLeaseMs, renewAt: 0 };
      longer.set(topicLeaseMs, lease);
      this.#renewFrom(0);
      return lease;
    };
  }

  /**
   * Takes the messages of a claim. One that is held already was claimed again because its lease expired:
   * - while it waited, only the new lease counts;
   * - while its handler runs, the handler is aborted and the message is handled after it;
   * - while it is being settled, the new lease is held until the settlement shows whether the message was settled before
   *   the claim, or has to be settled under the new lease.
   */
  take(claimed: readonly HeldMessage[]): void {
    const all = this.#run.held;
    if (all.waiting.length > 0) {
      const again = new Set(claimed.map(({ message }) => message.seq));
      all.waiting = all.waiting.filter(({ message }) => !again.has(message.seq));
    }
    for (const held of claimed) {
      const { seq } = held.message;
      const settling = all.settling.get(seq);
      if (settling !== undefined) {
        settling.reclaimed = held;
        continue;
      }
      const running = all.running.get(seq);
      if (running !== undefined) this.lose(running);
      all.waiting.push(held);
    }
  }

  /**
   * Gives messages of one claim that are about to be settled a lease object of their own, with the same owner. Their rows
   * may be locked until the settlement is committed, and a renewal then waits for that; the renewal of the claim's other
   * messages must not.
   */
  renewApart(settled: readonly HeldMessage[]): void {
    const lease = { ...settled[0]!.lease, isRenewing: false };
    for (const held of settled) held.lease = lease;
    this.#renewFrom(lease.renewAt);
  }

  /** Starts the renewals that are due: of waiting, running and settling messages alike, one call for each lease. */
  renewDue(now: number): void {
    if (now < this.#nextRenewalAt) return;
    const due = new Map<Lease, HeldMessage[]>();
    for (const held of this.#renewable()) {
      if (held.lease.renewAt > now) continue;
      const messages = due.get(held.lease);
      if (messages === undefined) due.set(held.lease, [held]);
      else messages.push(held);
    }
    for (const [lease, messages] of due) void this.#renew(lease, messages);
    this.#nextRenewalAt = Number.POSITIVE_INFINITY;
    for (const { lease } of this.#renewable()) this.#renewFrom(lease.renewAt);
  }

  /** Milliseconds until `renewDue` has something to do. */
  untilNextMs(now: number): number {
    return Math.max(0, this.#nextRenewalAt - now);
  }

  /** A process that was frozen may find that its leases are over: another worker may have such a message. */
  isExpired(held: HeldMessage, now: number): boolean {
    if (now < held.lease.expiresAt) return false;
    this.lose(held);
    return true;
  }

  /**
   * The lease on a waiting or running message has expired and may be another worker's. A running handler is aborted, and
   * counts as lost when it has ended; a waiting message counts at once.
   */
  lose(lost: HeldMessage): void {
    const { held, counts, logger, onChange } = this.#run;
    if (lost.isLost) return;
    lost.isLost = true;
    lost.abort.abort(new LeaseLostError());
    if (!held.isRunning(lost)) {
      held.waiting = held.waiting.filter((other) => other !== lost);
      counts.add("lost", 1);
    }
    logger.warn("lease lost", describeKey(lost.message));
    onChange();
  }

  #renewFrom(at: number): void {
    this.#nextRenewalAt = Math.min(this.#nextRenewalAt, at);
  }

  /** Messages under a lease that is not being renewed now. */
  *#renewable(): Generator<HeldMessage> {
    const { waiting, running, settling } = this.#run.held;
    for (const held of waiting) if (!held.lease.isRenewing) yield held;
    for (const held of running.values()) if (!held.lease.isRenewing && !held.isLost) yield held;
    for (const settles of settling.values()) {
      const held = settles.reclaimed ?? settles;
      if (!held.lease.isRenewing) yield held;
    }
  }

  async #renew(lease: Lease, messages: readonly HeldMessage[]): Promise<void> {
    const { store, logger, onChange } = this.#run;
    const { owner, leaseMs } = lease;
    const startedAt = performance.now();
    lease.isRenewing = true;
    try {
      const sent = messages.map(({ message }) => message);
      // After the third of the lease that has passed there is time for two renewals.
      const { lost: lostMessages } = await withDeadline(leaseMs / 4, "A renewal", (signal) =>
        store.renew(owner, sent, leaseMs, { signal }),
      );
      const lost = new Set<unknown>(lostMessages);
      lease.expiresAt = startedAt + leaseMs;
      lease.renewAt = renewalOf(startedAt, leaseMs);
      for (const held of messages) if (lost.has(held.message)) this.#notRenewed(held);
    } catch (error) {
      lease.renewAt = performance.now() + leaseMs / 12;
      logger.error("renewing leases failed", { messages: messages.length, error: safeReason(error) });
    } finally {
      lease.isRenewing = false;
      this.#renewFrom(lease.renewAt);
      onChange();
    }
  }

  #notRenewed(held: HeldMessage): void {
    const all = this.#run.held;
    const settling = all.settling.get(held.message.seq);
    // A message that is being settled may have been settled meanwhile: its settlement shows whether the lease was lost.
    if (settling === undefined && !held.isAcking && (all.isRunning(held) || all.waiting.includes(held)))
      this.lose(held);
    else if (settling?.reclaimed === held) settling.reclaimed = undefined; // another worker has the message
  }
}

/** After a third of the lease, so that a renewal may fail and be repeated. */
const renewalOf = (from: number, leaseMs: number): number => from + leaseMs / 3;
