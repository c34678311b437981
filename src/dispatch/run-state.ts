import type { Budget } from "../base/budget.js";
import type { LogFields, Logger } from "../base/logger.js";
import type { MetricAttributes } from "../base/telemetry.js";
import { processTimers, yieldToEventLoop } from "../base/timers.js";
import { LeaseLostError, mustRunAlone, type OwnerToken } from "../queue/leases.js";
import { queueName } from "../queue/maintenance.js";
import type { QueueMessage } from "../queue/message.js";
import type { DispatchStore } from "../queue/work-store.js";
import type { DispatcherConfig } from "./dispatcher.js";
import type { Decision, HandlingEnd } from "./settlement.js";
import { fitsInto, type PollSchedule, type RunTime, type TopicRecord, type TopicRecords } from "./timing.js";

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

/** A message that this run holds, from its claim to its settlement. */
export interface HeldMessage<Message, Tx> {
  readonly message: Message;
  readonly topic: TopicRecord<Message, Tx>;
  lease: Lease;
  /** Set when the handler starts; all three are times of the monotonic clock. */
  startedAt: number;
  timeoutAt: number;
  warnAt: number;
  /** Made when the handler first reads its signal. */
  abort: AbortController | undefined;
  /** Why the handler was told to stop. */
  stopReason: Error | undefined;
  /** Ends the handler's transaction. */
  transaction: AbortController | undefined;
  /** The handler was called. With `transactional` that needs a transaction first. */
  isCalled: boolean;
  /** Its transaction is acknowledging it, and locks its row until the commit. */
  isAcking: boolean;
  /** The lease is gone, so the result is not ours to settle. */
  isLost: boolean;
  /** The outcome is decided, though the handler may still run. */
  isEnded: boolean;
  /** How the message is settled; set when its outcome is decided. */
  decision: Decision | undefined;
  /** The same message from a later claim, which arrived before the settlement was confirmed. It is held in place of this. */
  later: HeldMessage<Message, Tx> | undefined;
}

export interface RunCounts {
  claimed: number;
  handled: number;
  acked: number;
  abandoned: number;
  failed: number;
  released: number;
  lost: number;
  /** Handlers that were given up and have not returned since. */
  stuck: number;
}

/** Everything that a run knows. Its parts read and change this, and nothing else. */
export interface RunState<Message extends QueueMessage, Tx> {
  readonly store: DispatchStore<Message, Tx>;
  readonly config: DispatcherConfig<Message, Tx>;
  readonly budget: Budget;
  readonly time: RunTime;
  readonly logger: Logger;
  readonly topics: TopicRecords<Message, Tx>;
  readonly polls: PollSchedule;
  /** Notified of every change that the run's loop may have to react to. */
  readonly changed: Changes;
  readonly counts: RunCounts;
  /** Whether lines about each message go anywhere. Otherwise not even their fields are put together. */
  readonly logsEach: boolean;
  readonly fieldsOf: (message: Message) => LogFields;
  /** Called when as many handlers are stuck as may run at once. */
  readonly onStuck: (() => void) | undefined;
  /** Set: a fault of the database does not end the run. */
  readonly onFault: ((error: unknown) => void) | undefined;

  /** Claimed, not started, in the order of the claims. */
  waiting: HeldMessage<Message, Tx>[];
  /** Started, by row number. A handler whose lease is lost stays here until it ends. */
  readonly running: Map<number, HeldMessage<Message, Tx>>;
  /** Outcome decided, settlement not confirmed, by row number. These messages are still held and renewed. */
  readonly settling: Map<number, HeldMessage<Message, Tx>>;
  /** The part of `settling` that has not been sent to the store. */
  unsent: HeldMessage<Message, Tx>[];
  /** The partition keys of running and settling messages. */
  readonly busyPartitions: Set<string>;
  readonly givenUp: Map<HeldMessage<Message, Tx>, GivenUpHandler>;

  /** Handled messages that metrics have not been told. Empty without metrics. */
  readonly uncounted: Set<HandledCount>;

  /** When a handler was last started, by the monotonic clock. */
  lastStartAt: number;
  isClaiming: boolean;
  isSettling: boolean;
  nextRenewalAt: number;
  /** Aborts the claim that is under way. An aborted claim may leave leased messages behind, so it is used at the end only. */
  readonly claimAbort: AbortController;
  /** The last claim returned nothing, and nothing has changed since that could make a message claimable. */
  isDrained: boolean;
  /** How often something happened that may have made messages claimable; see `expectClaimable`. */
  claimableEvents: number;
  /** Messages were not handled because of time. */
  hasUnfinished: boolean;
  /** A message that must be handled alone could not be started. Another claim would return it again. */
  suspectNotStarted: boolean;
  /** The database cannot be used. The run settles what it can and rejects with this. */
  fault: unknown;
}

/** A handler that was given up at its time-out or at the run's end and has not returned since. */
interface GivenUpHandler {
  /** From then on it counts as stuck: it ignores its signal. */
  readonly stuckAt: number;
  isReported: boolean;
}

export const isStopping = <Message extends QueueMessage, Tx>(run: RunState<Message, Tx>): boolean =>
  run.budget.signal.aborted || run.fault !== undefined || run.suspectNotStarted || run.time.usableMs() <= 0;

export const runsSuspect = <Message extends QueueMessage, Tx>({
  running,
}: RunState<Message, Tx>): boolean => {
  for (const held of running.values()) if (mustRunAlone(held.message)) return true;
  return false;
};

export const holdsSuspect = <Message extends QueueMessage, Tx>(run: RunState<Message, Tx>): boolean =>
  runsSuspect(run) || run.waiting.some((held) => mustRunAlone(held.message));

/** How long messages wait for a slot. Then another worker may have one, and this run's handlers take longer anyway. */
export const longestSlotWaitMs = 1_000;

/** Milliseconds until the slots count as blocked: all are taken, and none has become free for a while. */
export const untilBlockedMs = <Message extends QueueMessage, Tx>(
  { running, config, lastStartAt }: RunState<Message, Tx>,
  now: number,
): number =>
  running.size < config.concurrency
    ? Number.POSITIVE_INFINITY
    : Math.max(0, lastStartAt + longestSlotWaitMs - now);

/** Whether a waiting message may start now. The dispatcher's own `concurrency` is not checked here. */
export function isStartable<Message extends QueueMessage, Tx>(
  run: RunState<Message, Tx>,
  { message, topic }: HeldMessage<Message, Tx>,
  usableMs: number,
): boolean {
  if (topic.running >= topic.maxConcurrency || !fitsInto(topic, usableMs)) return false;
  const { seq, partitionKey } = message;
  return !run.running.has(seq) && (partitionKey === null || !run.busyPartitions.has(partitionKey));
}

/** Tells a handler to stop, through its signal. The first reason counts. */
export function tellToStop<Message, Tx>(held: HeldMessage<Message, Tx>, reason: Error): void {
  held.stopReason ??= reason;
  held.abort?.abort(held.stopReason);
}

/**
 * The lease on a message has expired and may be another worker's. A running handler is told to stop, and counts as lost
 * when it has ended; a waiting message counts at once.
 */
export function loseLease<Message extends QueueMessage, Tx>(
  run: RunState<Message, Tx>,
  held: HeldMessage<Message, Tx>,
): void {
  if (held.isLost) return;
  held.isLost = true;
  tellToStop(held, new LeaseLostError());
  if (run.running.get(held.message.seq) !== held) {
    run.waiting = run.waiting.filter((other) => other !== held);
    run.counts.lost++;
    countMessages(run, "oncebox.lease.lost", 1);
  }
  run.logger.warn("lease lost", run.config.describe(held.message));
  run.changed.notify();
}

/**
 * Messages that are about to be settled get a lease object of their own, with the same owner. Their rows may be locked
 * until the settlement is committed, and a renewal then waits for that; the renewal of the claim's other messages must not.
 */
export function renewApart<Message extends QueueMessage, Tx>(
  run: RunState<Message, Tx>,
  settled: readonly HeldMessage<Message, Tx>[],
): void {
  const lease = { ...settled[0]!.lease, isRenewing: false };
  for (const held of settled) held.lease = lease;
  run.nextRenewalAt = Math.min(run.nextRenewalAt, lease.renewAt);
}

/** The message's outcome is decided: it waits for its settlement. */
export function toSettling<Message extends QueueMessage, Tx>(
  run: RunState<Message, Tx>,
  held: HeldMessage<Message, Tx>,
  decision: Decision,
): void {
  held.decision = decision;
  run.settling.set(held.message.seq, held);
  run.unsent.push(held);
  const { partitionKey } = held.message;
  if (partitionKey !== null) run.busyPartitions.add(partitionKey);
  run.changed.notify();
}

/** The run no longer holds the message. */
export function letGo<Message extends QueueMessage, Tx>(
  run: RunState<Message, Tx>,
  held: HeldMessage<Message, Tx>,
): void {
  const { seq, partitionKey } = held.message;
  if (run.settling.get(seq) === held) run.settling.delete(seq);
  if (run.running.get(seq) === held) run.running.delete(seq);
  if (partitionKey !== null) {
    // A lost handler and a later claim of the same message may both be here.
    if (!run.settling.has(seq) && !run.running.has(seq)) run.busyPartitions.delete(partitionKey);
    expectClaimable(run);
  }
  run.changed.notify();
}

/**
 * A claim may find messages now: a wake-up came, or the first message of a partition queue was settled. A claim that is
 * under way may have come too early for them, so it cannot tell whether the queue is drained.
 */
export function expectClaimable<Message extends QueueMessage, Tx>(run: RunState<Message, Tx>): void {
  run.claimableEvents++;
  run.isDrained = false;
}

/**
 * The database cannot be used. A run that goes on polling asks it again after a wait: its handlers go on, and if it ended, a
 * slow one would keep it from claiming for long after the database is back. Any other run ends.
 */
export function databaseFailed<Message extends QueueMessage, Tx>(
  run: RunState<Message, Tx>,
  error: unknown,
): void {
  const now = performance.now();
  if (run.onFault === undefined) run.fault ??= error;
  else if (run.polls.untilRetryMs(now) === 0) {
    run.polls.failed(now); // one fault fails many calls: the first of them is reported
    run.onFault(error);
  }
}

/** Gives waiting messages back to the queue, at no attempt. */
export function releaseWaiting<Message extends QueueMessage, Tx>(
  run: RunState<Message, Tx>,
  except?: HeldMessage<Message, Tx>,
): void {
  const released = run.waiting.filter((held) => held !== except);
  run.waiting = except === undefined ? [] : [except];
  for (const held of released) toSettling(run, held, { kind: "release" });
}

/** A message that was just claimed. */
export const newHeld = <Message, Tx>(
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
  later: undefined,
});

interface Changes {
  notify(): void;
  /** Resolves to true at the next change, or at once if there was one since the last call; to false after `withinMs`. */
  next(withinMs: number): Promise<boolean>;
}

/** Wakes a waiting loop when something has changed. A change before the loop waits is kept for it. */
export function changes(): Changes {
  let changed = false;
  let resolve: (() => void) | undefined;
  return {
    notify() {
      changed = true;
      resolve?.();
    },
    async next(withinMs) {
      if (!changed && withinMs > 0) {
        let cancel = (): void => {};
        await new Promise<void>((done) => {
          resolve = done;
          cancel = processTimers.after(withinMs, done);
        });
        cancel();
        resolve = undefined;
      }
      // An embedded database resolves without leaving the event loop's current tick. Leave it here, so that timers and
      // sockets are served, and so that all changes of one tick count as one.
      await yieldToEventLoop();
      const hasChanged = changed;
      changed = false;
      return hasChanged;
    },
  };
}

export type MessageCount =
  | "oncebox.claimed"
  | "oncebox.acked"
  | "oncebox.retried"
  | "oncebox.released"
  | "oncebox.lease.lost";

/** Counts messages of a run: once for each call of the store, not once for each message. */
export function countMessages<Message extends QueueMessage, Tx>(
  { config, store }: RunState<Message, Tx>,
  name: MessageCount,
  messages: number,
): void {
  if (messages > 0) config.metrics?.count(name, messages, { queue: queueName(store) });
}

/** The messages of one topic that ended in one way and are not counted yet. */
export interface HandledCount {
  /** One object for all of them: metrics take most of their time to tell attributes apart. */
  readonly attributes: MetricAttributes;
  handled: number;
}

export function handledCountOf<Message, Tx>(
  { name, outcomes }: TopicRecord<Message, Tx>,
  { kind }: HandlingEnd,
): HandledCount {
  let count = outcomes.get(kind);
  if (count === undefined) {
    count = { attributes: { topic: name, outcome: kind }, handled: 0 };
    outcomes.set(kind, count);
  }
  return count;
}

export function countHandled<Message extends QueueMessage, Tx>(
  run: RunState<Message, Tx>,
  topic: TopicRecord<Message, Tx>,
  end: HandlingEnd,
): void {
  if (run.config.metrics === undefined) return;
  const count = handledCountOf(topic, end);
  count.handled++;
  run.uncounted.add(count);
}

/** Passes the counts on: once for each turn of the run's loop, not once for each message. */
export function flushHandled<Message extends QueueMessage, Tx>({
  uncounted,
  config,
}: RunState<Message, Tx>): void {
  if (uncounted.size === 0) return;
  for (const count of uncounted) {
    const { handled, attributes } = count;
    count.handled = 0;
    if (handled > 0) config.metrics?.count("oncebox.handled", handled, attributes); // 0: another run was first
  }
  uncounted.clear();
}
