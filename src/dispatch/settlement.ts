import { mapLimit, sleep, withDeadline, yieldToEventLoop } from "../base/async.js";
import { safeReason } from "../base/logger.js";
import { withoutPayload } from "../base/redaction.js";
import { ArgumentRangeError, knownByCode, PayloadNotJsonError } from "../errors.js";
import type { QueueMessage } from "../queue/message.js";
import { backoffMs, longestMs, type RetryPolicy } from "../queue/retry-policy.js";
import type { Acknowledgement, DispatchStore, PreparedMessages, Settlement } from "../queue/work-store.js";
import type { UnhandledOutcome } from "./handlers.js";
import type { HeldMessage, SettlingParts } from "./held-messages.js";

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
  /** `isAcked`: the handler's transaction has acknowledged the message. `outgoing`: what is to be enqueued with the acknowledgement. */
  | { readonly kind: "ok"; readonly isAcked: boolean; readonly outgoing?: PreparedMessages }
  | { readonly kind: "error"; readonly error: unknown }
  | { readonly kind: "timedOut"; readonly afterMs: number }
  | { readonly kind: "cutOff" }
  | { readonly kind: "ignored" }
  | {
      readonly kind: "noHandler";
      readonly topic: string;
      readonly onUnhandled: Exclude<UnhandledOutcome, "ignore">;
    };

/** What the dispatcher does with the message then. */
export type Decision =
  | { readonly kind: "ack"; readonly outgoing?: PreparedMessages }
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
  if (end.kind === "ok" && end.outgoing !== undefined) return { kind: "ack", outgoing: end.outgoing };
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

/** No retry can help. */
export const isHopeless = (error: unknown): boolean =>
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

/** Errors that their handler has logged in its own words. */
const loggedByHandler = new WeakSet<object>();

/** The dispatcher writes no line of its own about such an error. */
export function withOwnLogLine<E extends Error>(error: E): E {
  loggedByHandler.add(error);
  return error;
}

export const hasOwnLogLine = (error: unknown): boolean =>
  typeof error === "object" && error !== null && loggedByHandler.has(error);

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
    return withCauses(error, mostCauses);
  } catch {
    return "An error whose text cannot be read."; // its getter throws, or it has no string form
  }
}

/** A library's error often says only what failed. Why stands in its cause: Drizzle's has the database's error there. */
const mostCauses = 3;

function withCauses(error: Error, more: number): string {
  const text = `${error.name}: ${error.message}`;
  const { cause } = error;
  if (!(cause instanceof Error) || more === 0 || error.message.includes(cause.message)) return text;
  const { code } = cause as { readonly code?: unknown };
  return `${text}\ncaused by ${typeof code === "string" ? `${code} ` : ""}${withCauses(cause, more - 1)}`;
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
/**
 * How long a call with natural keys waits that others wait for, too: for a transaction that holds one of them. After it each message is
 * settled by itself, so that one that is held costs the others one more call.
 */
const longestSharedMs = 2_000;

/** Messages of one claim that are settled by one call of the store. */
type Batch = readonly HeldMessage[];

/** Sends the settlements of held messages to the store. */
export class Settlements {
  readonly #run: SettlingParts;
  #isSending = false;

  constructor(run: SettlingParts) {
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
    const { held, onChange } = this.#run;
    await yieldToEventLoop(); // messages that finish in the same tick go together
    while (held.toSettle.length > 0) {
      const group = held.toSettle;
      held.toSettle = [];
      await mapLimit(batchesOf(group), callsAtOnce, (batch) => this.#settle(batch));
    }
    this.#isSending = false;
    onChange();
  }

  /**
   * Settles a batch. If that fails, for example during a fail-over, it is tried again for as long as a lease lasts: the
   * handlers have done their work. The caller does not wait for that, so other settlements go on.
   */
  async #settle(batch: Batch): Promise<void> {
    this.#run.leases.renewApart(batch);
    const giveUpAt = performance.now() + batch[0]!.lease.leaseMs;
    for (let tries = 1; tries <= triesAtOnce; tries++) {
      if (await this.#isSettled(batch, batch.length > 1)) return;
      if (batch.length > 1 && batch.some(sends)) return this.#settleSingly(batch, giveUpAt);
    }
    void this.#keepTrying(batch, giveUpAt);
  }

  /** One of the messages to send may be what the batch waited for, such as a natural key that an open transaction holds. */
  async #settleSingly(batch: Batch, giveUpAt: number): Promise<void> {
    await mapLimit(batch, callsAtOnce, async (held) => {
      this.#run.leases.renewApart([held]);
      if (!(await this.#isSettled([held], true))) void this.#keepTrying([held], giveUpAt);
    });
  }

  async #keepTrying(batch: Batch, giveUpAt: number): Promise<void> {
    let waitMs = firstWaitMs;
    for (;;) {
      const leftMs = Math.min(giveUpAt - performance.now(), this.#run.time.untilReturnMs());
      if (leftMs <= 0) return this.#giveUp(batch);
      await sleep(Math.min(waitMs, leftMs));
      if (await this.#isSettled(batch)) return;
      waitMs = Math.min(2 * waitMs, longestWaitMs);
    }
  }

  /** @param othersWait whether other messages are settled only when this call has ended */
  async #isSettled(batch: Batch, othersWait = false): Promise<boolean> {
    const { store, time, logger, config } = this.#run;
    const { settleTimeoutMs } = config;
    const isShort = othersWait && batch.some((held) => outgoingOf(held)?.hasNaturalKeys);
    const timeoutMs = isShort ? Math.min(settleTimeoutMs, longestSharedMs) : settleTimeoutMs;
    const startedAt = performance.now();
    try {
      const result = await withDeadline(timeoutMs, "A settlement", (signal) =>
        sendBatch(store, batch, signal),
      );
      time.storeCallTook(performance.now() - startedAt);
      this.#confirm(batch, result);
      return true;
    } catch (error) {
      const { kind } = batch[0]!.decision!;
      logger.error("settling failed", { call: kind, messages: batch.length, error: safeReason(error) });
      return false;
    }
  }

  #confirm(batch: Batch, { lost, dead }: Settlement<unknown>): void {
    const { held: all, counts } = this.#run;
    const lostMessages = new Set(lost);
    let settled = 0;
    let notHeld = 0;
    for (const held of batch) {
      const { reclaimed } = held;
      const isLost = lostMessages.has(held.message);
      if (isLost && reclaimed !== undefined) {
        this.#settleReclaimed(held, reclaimed);
        continue;
      }
      if (isLost) notHeld++;
      else settled++;
      all.forget(held);
      held.onSettled?.(!isLost);
      // It was claimed after this settlement, so it is due again: it was abandoned or released.
      if (reclaimed !== undefined) all.waiting.push(reclaimed);
    }
    counts.add("lost", notHeld);
    counts.add(countOf[batch[0]!.decision!.kind], settled, dead.length);
  }

  /** Leaves the messages to their lease: when it has expired, they are claimed again. */
  #giveUp(batch: Batch): void {
    for (const held of batch) {
      if (held.reclaimed !== undefined) {
        this.#settleReclaimed(held, held.reclaimed);
        continue;
      }
      this.#run.held.forget(held);
      held.onSettled?.(false);
    }
  }

  /** The message was claimed again before its settlement reached the database. It is settled under that lease instead. */
  #settleReclaimed(held: HeldMessage, reclaimed: HeldMessage): void {
    const decision = held.decision!;
    // The expiry of the first lease has counted the attempt.
    const again = decision.kind === "abandon" ? { ...decision, costsAttempt: false } : decision;
    reclaimed.onSettled = held.onSettled;
    this.#run.held.settle(reclaimed, again);
  }
}

const countOf = { ack: "acked", release: "released", abandon: "abandoned", fail: "failed" } as const;

/**
 * One batch for each claim and kind of decision; abandons by their limit of attempts, failures one by one. Acknowledgements that send
 * are apart from the others, and those that send natural keys from the rest: what these wait for must not delay the others.
 */
function batchesOf(group: readonly HeldMessage[]): Iterable<Batch> {
  const batches = new Map<string, HeldMessage[]>();
  for (const held of group) {
    const decision = held.decision!;
    const limit = decision.kind === "abandon" ? decision.maxAttempts : "";
    const single = decision.kind === "fail" ? held.message.seq : "";
    const key = `${decision.kind} ${limit} ${single} ${outgoingOf(held)?.hasNaturalKeys ?? ""} ${held.lease.owner}`;
    const batch = batches.get(key);
    if (batch === undefined) batches.set(key, [held]);
    else batch.push(held);
  }
  return batches.values();
}

function sendBatch(
  store: DispatchStore<QueueMessage>,
  batch: Batch,
  signal: AbortSignal,
): Promise<Settlement<unknown>> {
  const { owner } = batch[0]!.lease;
  const decision = batch[0]!.decision!;
  const messages = batch.map(({ message }) => message);
  switch (decision.kind) {
    case "ack":
      return store.ack(owner, batch.some(sends) ? batch.map(acknowledgementOf) : messages, { signal });
    case "release":
      return store.release(owner, messages, { signal });
    case "fail":
      return store.fail(owner, messages, decision.error, { signal });
    case "abandon": {
      const items = batch.map((held) => {
        const { delayMs, error, costsAttempt } = held.decision as typeof decision;
        return { message: held.message, delayMs, error, costsAttempt };
      });
      return store.abandon(owner, items, { signal, maxAttempts: decision.maxAttempts });
    }
  }
}

const outgoingOf = ({ decision }: HeldMessage): PreparedMessages | undefined =>
  decision?.kind === "ack" ? decision.outgoing : undefined;

const sends = (held: HeldMessage): boolean => outgoingOf(held) !== undefined;

const acknowledgementOf = (held: HeldMessage): Acknowledgement<QueueMessage> => ({
  message: held.message,
  outgoing: outgoingOf(held),
});
