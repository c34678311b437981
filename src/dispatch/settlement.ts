import { mapLimit } from "../base/concurrency.js";
import { type Logger, safeReason } from "../base/logger.js";
import { withoutPayload } from "../base/redaction.js";
import { sleep, withDeadline, yieldToEventLoop } from "../base/timers.js";
import { ArgumentRangeError, knownByCode, PayloadNotJsonError } from "../errors.js";
import type { QueueMessage } from "../queue/message.js";
import { backoffMs, longestMs, type RetryPolicy } from "../queue/retry-policy.js";
import type { CallOptions, DispatchStore, Settlement } from "../queue/work-store.js";
import type { Counts } from "./counts.js";
import type { OnUnhandled } from "./handlers.js";
import type { HeldMessage, HeldMessages, Leases } from "./held-messages.js";
import type { RunTime } from "./timing.js";

/** Thrown or returned by a handler: no retry can help, so the message is dead at once. */
export class PermanentFailure extends Error {
  static readonly code = "ONCEBOX_PERMANENT_FAILURE";
  static {
    knownByCode(PermanentFailure);
  }

  readonly code = PermanentFailure.code;
  override readonly name = "PermanentFailure";
}

/** Thrown or returned by a handler: retry, but not before this delay. */
export class RetryAfter extends Error {
  static readonly code = "ONCEBOX_RETRY_AFTER";
  static {
    knownByCode(RetryAfter);
  }

  readonly code = RetryAfter.code;
  override readonly name = "RetryAfter";

  constructor(
    readonly delayMs: number,
    reason: string,
    readonly costsAttempt = true,
  ) {
    super(reason);
  }
}

/**
 * @example
 * throw permanentFailure("the order was deleted");
 */
export const permanentFailure = (reason: string, options?: ErrorOptions): PermanentFailure =>
  new PermanentFailure(reason, options);

/**
 * `costsAttempt: false` is for a message that was not tried at all. It cannot become dead by it.
 *
 * @example
 * throw retryAfter(30_000, "rate limited");
 */
export function retryAfter(
  delayMs: number,
  reason = "The handler asked for a later retry.",
  { costsAttempt = true }: { readonly costsAttempt?: boolean } = {},
): RetryAfter {
  if (!Number.isFinite(delayMs) || delayMs <= 0 || delayMs > longestMs) {
    throw new ArgumentRangeError(`retryAfter: the delay must be more than 0 and at most ${longestMs} ms.`);
  }
  return new RetryAfter(delayMs, reason, costsAttempt);
}

/** How the handling of one message ended. */
export type HandlingEnd =
  | { readonly kind: "ok" }
  | { readonly kind: "error"; readonly error: unknown }
  | { readonly kind: "timedOut"; readonly afterMs: number }
  | { readonly kind: "cutOff" }
  | { readonly kind: "ignored" }
  | { readonly kind: "noHandler"; readonly topic: string; readonly onUnhandled: OnUnhandled };

/** What the dispatcher does with the message then. */
export type Decision =
  | { readonly kind: "ack" }
  | { readonly kind: "release" }
  | {
      readonly kind: "abandon";
      readonly error: string;
      /** Replaces the store's policy. */
      readonly delayMs: number | undefined;
      readonly maxAttempts: number | undefined;
      readonly costsAttempt: boolean;
    }
  | { readonly kind: "fail"; readonly error: string };

const ack: Decision = { kind: "ack" };

/**
 * Decides how a message is settled. Its `attempt` counts the failed attempts before this one. Without a policy of the topic
 * or of the dispatcher, the store's policy decides how long to wait and when the message is dead.
 */
export function decisionOf(
  end: HandlingEnd,
  { attempt, payload }: { readonly attempt: number; readonly payload: string },
  policy: RetryPolicy | undefined,
  random: () => number = Math.random,
): Decision {
  if (end.kind === "ok" || end.kind === "ignored") return ack;
  if (end.kind === "noHandler" && end.onUnhandled === "ack") return ack;
  const error = reasonOf(end, payload);
  const isPermanent =
    (end.kind === "error" && isHopeless(end.error)) ||
    (end.kind === "noHandler" && end.onUnhandled === "dead");
  const asked = end.kind === "error" && end.error instanceof RetryAfter ? end.error : undefined;
  const costsAttempt = asked?.costsAttempt ?? true;
  const isLast = policy !== undefined && attempt + 1 >= policy.maxAttempts;
  if (isPermanent || (isLast && costsAttempt)) return { kind: "fail", error };
  const backoff = policy === undefined ? undefined : Math.max(1, backoffMs(policy, attempt + 1, random));
  const delayMs = asked?.delayMs ?? backoff;
  return { kind: "abandon", error, delayMs, maxAttempts: policy?.maxAttempts, costsAttempt };
}

const isHopeless = (error: unknown): boolean =>
  error instanceof PermanentFailure || error instanceof PayloadNotJsonError;

function reasonOf(end: Exclude<HandlingEnd, { kind: "ok" | "ignored" }>, payload: string): string {
  switch (end.kind) {
    case "timedOut":
      return `The handler did not finish within ${end.afterMs} ms.`;
    case "cutOff":
      return "The function's time was up before the handler finished.";
    case "noHandler":
      return `No handler is registered for the topic "${end.topic}".`;
    case "error":
      return storedReason(end.error, payload);
  }
}

/** Errors whose whole text is this package's. It quotes nothing, and is stored as it is. */
const ownTexts = new WeakSet<object>();

export function withOwnText<E extends Error>(error: E): E {
  ownTexts.add(error);
  return error;
}

/** What is stored of an error: its text, cut, and without what it quotes of the payload. */
export const storedReason = (error: unknown, payload: string): string =>
  error instanceof PayloadNotJsonError || (typeof error === "object" && error !== null && ownTexts.has(error))
    ? describeThrown(error)
    : withoutPayload(describeThrown(error), payload);

export function describeThrown(error: unknown): string {
  if (!(error instanceof Error)) {
    return `Not an Error was thrown: ${typeof error === "string" ? error : `a value of type ${typeof error}`}`;
  }
  try {
    return `${error.name}: ${error.message}`;
  } catch {
    return "An error whose text cannot be read."; // its getter throws, or it has no string form
  }
}

/**
 * One after the other, the calls of several claims would outlast the reserve at the end of a run. A pool has 4 connections
 * by default: slow calls leave one of them for renewals.
 */
const callsAtOnce = 3;

/** Tries at one call before the next group of messages is settled. The store retries transient faults itself. */
const triesAtOnce = 3;
const firstWaitMs = 100;
const longestWaitMs = 2_000;

/** What settlements need of their run. */
interface SettlementHost<Message extends QueueMessage, Tx> {
  readonly store: DispatchStore<Message, Tx>;
  readonly held: HeldMessages<Message, Tx>;
  readonly leases: Leases<Message, Tx>;
  readonly counts: Counts;
  readonly time: RunTime;
  readonly logger: Logger;
  readonly config: { readonly settleTimeoutMs: number };
  readonly onChange: () => void;
}

/** Sends the settlements of a run's messages to the store. */
export class Settlements<Message extends QueueMessage, Tx> {
  readonly #run: SettlementHost<Message, Tx>;
  #isSending = false;

  constructor(run: SettlementHost<Message, Tx>) {
    this.#run = run;
  }

  /**
   * Starts to settle finished messages, one group at a time. Messages that finish meanwhile make the next group: groups
   * are small while handlers are slow and large while they are fast. If the function is killed, only finished messages
   * that are not settled yet are handled again.
   */
  send(): void {
    if (this.#isSending || this.#run.held.toSettle.length === 0) return;
    this.#isSending = true;
    void this.#sendGroups();
  }

  async #sendGroups(): Promise<void> {
    const { store, held, onChange } = this.#run;
    await yieldToEventLoop(); // messages that finish in the same tick go together
    while (held.toSettle.length > 0) {
      const group = held.toSettle;
      held.toSettle = [];
      await mapLimit(callsFor(store, group), callsAtOnce, (call) => this.#settle(call));
    }
    this.#isSending = false;
    onChange();
  }

  /**
   * Settles the messages of one call. If that fails, for example during a fail-over, it is tried again for as long as a
   * lease lasts: the handlers have done their work. The caller does not wait for that, so other settlements go on.
   */
  async #settle(call: SettleCall<Message, Tx>): Promise<void> {
    this.#run.leases.renewApart(call.messages);
    const giveUpAt = performance.now() + call.messages[0]!.lease.leaseMs;
    for (let tries = 1; tries <= triesAtOnce; tries++) if (await this.#isSettled(call)) return;
    void this.#keepTrying(call, giveUpAt);
  }

  async #keepTrying(call: SettleCall<Message, Tx>, giveUpAt: number): Promise<void> {
    let waitMs = firstWaitMs;
    for (;;) {
      const leftMs = Math.min(giveUpAt - performance.now(), this.#run.time.untilReturnMs());
      if (leftMs <= 0) return this.#giveUp(call);
      await sleep(Math.min(waitMs, leftMs));
      if (await this.#isSettled(call)) return;
      waitMs = Math.min(2 * waitMs, longestWaitMs);
    }
  }

  async #isSettled(call: SettleCall<Message, Tx>): Promise<boolean> {
    const { time, logger, config } = this.#run;
    try {
      const startedAt = performance.now();
      const result = await withDeadline(config.settleTimeoutMs, "A settlement", (signal) =>
        call.send({ signal }),
      );
      time.storeCallTook(performance.now() - startedAt);
      this.#confirm(call, result);
      return true;
    } catch (error) {
      const messages = call.messages.length;
      logger.error("settling failed", { call: call.count, messages, error: safeReason(error) });
      return false;
    }
  }

  #confirm({ messages, count }: SettleCall<Message, Tx>, { lost, dead }: Settlement<unknown>): void {
    const { held: all, counts } = this.#run;
    const lostMessages = new Set(lost);
    let settled = 0;
    let notHeld = 0;
    for (const held of messages) {
      const { reclaimed } = held;
      const isLost = lostMessages.has(held.message);
      if (isLost && reclaimed !== undefined) {
        this.#settleReclaimed(held, reclaimed);
        continue;
      }
      if (isLost) notHeld++;
      else settled++;
      all.forget(held);
      // It was claimed after this settlement, so it is due again: it was abandoned or released.
      if (reclaimed !== undefined) all.waiting.push(reclaimed);
    }
    counts.add("lost", notHeld);
    counts.add(count, settled, dead.length);
  }

  /** Leaves the messages to their lease: when it has expired, they are claimed again. */
  #giveUp({ messages }: SettleCall<Message, Tx>): void {
    for (const held of messages) {
      if (held.reclaimed === undefined) this.#run.held.forget(held);
      else this.#settleReclaimed(held, held.reclaimed);
    }
  }

  /** The message was claimed again before its settlement reached the database. It is settled under that lease instead. */
  #settleReclaimed(held: HeldMessage<Message, Tx>, reclaimed: HeldMessage<Message, Tx>): void {
    const decision = held.decision!;
    // The expiry of the first lease has counted the attempt.
    const again = decision.kind === "abandon" ? { ...decision, costsAttempt: false } : decision;
    this.#run.held.settle(reclaimed, again);
  }
}

/** One call of the store, which settles messages of one claim. */
interface SettleCall<Message, Tx> {
  readonly messages: readonly HeldMessage<Message, Tx>[];
  readonly count: "acked" | "released" | "abandoned" | "failed";
  readonly send: (options: CallOptions) => Promise<Settlement<unknown>>;
}

/** One call for each claim and kind of decision; abandons by their limit of attempts, failures one by one. */
function callsFor<Message extends QueueMessage, Tx>(
  store: DispatchStore<Message, Tx>,
  group: readonly HeldMessage<Message, Tx>[],
): readonly SettleCall<Message, Tx>[] {
  const batches = new Map<string, HeldMessage<Message, Tx>[]>();
  for (const held of group) {
    const decision = held.decision!;
    const limit = decision.kind === "abandon" ? decision.maxAttempts : "";
    const single = decision.kind === "fail" ? held.message.seq : "";
    const key = `${decision.kind} ${limit} ${single} ${held.lease.owner}`;
    const batch = batches.get(key);
    if (batch === undefined) batches.set(key, [held]);
    else batch.push(held);
  }
  return [...batches.values()].map((batch) => callFor(store, batch));
}

function callFor<Message extends QueueMessage, Tx>(
  store: DispatchStore<Message, Tx>,
  batch: readonly HeldMessage<Message, Tx>[],
): SettleCall<Message, Tx> {
  const { lease, decision } = batch[0]!;
  const { owner } = lease;
  const messages = batch.map(({ message }) => message);
  const call = (count: SettleCall<Message, Tx>["count"], send: SettleCall<Message, Tx>["send"]) => ({
    messages: batch,
    count,
    send,
  });
  switch (decision!.kind) {
    case "ack":
      return call("acked", (options) => store.ack(owner, messages, options));
    case "release":
      return call("released", (options) => store.release(owner, messages, options));
    case "fail": {
      const { error } = decision!;
      return call("failed", (options) => store.fail(owner, messages, error, options));
    }
    case "abandon": {
      const { maxAttempts } = decision!;
      const items = batch.map((held) => {
        const { delayMs, error, costsAttempt } = held.decision as Extract<Decision, { kind: "abandon" }>;
        return { message: held.message, delayMs, error, costsAttempt };
      });
      return call("abandoned", (options) => store.abandon(owner, items, { ...options, maxAttempts }));
    }
  }
}
