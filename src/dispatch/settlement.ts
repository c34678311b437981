import { mapLimit } from "../base/concurrency.js";
import { safeReason } from "../base/logger.js";
import { withoutPayload } from "../base/redaction.js";
import { sleep, withDeadline, yieldToEventLoop } from "../base/timers.js";
import { ArgumentRangeError, knownByCode, PayloadNotJsonError } from "../errors.js";
import type { OwnerToken } from "../queue/leases.js";
import type { QueueMessage } from "../queue/message.js";
import { backoffMs, longestMs, type RetryPolicy } from "../queue/retry-policy.js";
import type { CallOptions, Settlement } from "../queue/work-store.js";
import type { OnUnhandled } from "./handlers.js";
import {
  countMessages,
  type HeldMessage,
  letGo,
  type MessageCount,
  type RunCounts,
  type RunState,
  renewApart,
  toSettling,
} from "./run-state.js";

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

/**
 * Sends the settlements of finished messages to the store, one group at a time. Messages that finish meanwhile make the
 * next group: groups are small while handlers are slow and large while they are fast. If the function is
 * killed, only finished messages that are not settled yet are handled again.
 */
export function settleFinished<Message extends QueueMessage, Tx>(run: RunState<Message, Tx>): void {
  if (run.isSettling || run.unsent.length === 0) return;
  run.isSettling = true;
  void settleGroups(run);
}

async function settleGroups<Message extends QueueMessage, Tx>(run: RunState<Message, Tx>): Promise<void> {
  await yieldToEventLoop(); // messages that finish in the same tick go together
  while (run.unsent.length > 0) {
    const group = run.unsent;
    run.unsent = [];
    await mapLimit(callsFor(run, group), callsAtOnce, (call) => sendSettlement(run, call));
  }
  run.isSettling = false;
  run.changed.notify();
}

type Abandon = Extract<Decision, { kind: "abandon" }>;

/** One call for each claim and kind of decision; abandons by their limit of attempts, failures one by one. */
function callsFor<Message extends QueueMessage, Tx>(
  { store }: RunState<Message, Tx>,
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
  return [...batches.values()].map((held): SettleCall<Message, Tx> => {
    const { decision, lease } = held[0]!;
    const messages = held.map(({ message }) => message);
    const call = (count: SettleCall<Message, Tx>["count"], send: SettleCall<Message, Tx>["send"]) => ({
      messages: held,
      count,
      send,
    });
    if (decision!.kind === "ack")
      return call("acked", (options) => store.ack(lease.owner, messages, options));
    if (decision!.kind === "release")
      return call("released", (options) => store.release(lease.owner, messages, options));
    if (decision!.kind === "fail") {
      const { error } = decision as Extract<Decision, { kind: "fail" }>;
      return call("failed", (options) => store.fail(lease.owner, messages, error, options));
    }
    return call("abandoned", abandoning(store, lease.owner, held));
  });
}

const abandoning =
  <Message extends QueueMessage, Tx>(
    store: RunState<Message, Tx>["store"],
    owner: OwnerToken,
    held: readonly HeldMessage<Message, Tx>[],
  ) =>
  (options: CallOptions): Promise<Settlement<unknown>> => {
    const items = held.map(({ message, decision }) => {
      const { delayMs, error, costsAttempt } = decision as Abandon;
      return { message, delayMs, error, costsAttempt };
    });
    const { maxAttempts } = held[0]!.decision as Abandon;
    return store.abandon(owner, items, { ...options, maxAttempts });
  };

/** One call of the store, which settles messages of one claim. */
interface SettleCall<Message, Tx> {
  readonly messages: readonly HeldMessage<Message, Tx>[];
  readonly count: keyof Pick<RunCounts, "acked" | "released" | "abandoned" | "failed">;
  readonly send: (options: CallOptions) => Promise<Settlement<unknown>>;
}

/** Tries at one call before the next group of messages is settled. The store retries transient faults itself. */
const triesAtOnce = 3;
const firstWaitMs = 100;
const longestWaitMs = 2_000;

/**
 * Settles the messages of one call. If that fails, for example during a fail-over, it is tried again for as long as a lease
 * lasts: the handlers have done their work. The caller does not wait for that, so other settlements go on.
 */
async function sendSettlement<Message extends QueueMessage, Tx>(
  run: RunState<Message, Tx>,
  call: SettleCall<Message, Tx>,
): Promise<void> {
  renewApart(run, call.messages);
  const leaveAt = performance.now() + call.messages[0]!.lease.leaseMs;
  for (let tries = 1; tries <= triesAtOnce; tries++) if (await isSent(run, call)) return;
  void sendLater(run, call, leaveAt);
}

async function sendLater<Message extends QueueMessage, Tx>(
  run: RunState<Message, Tx>,
  call: SettleCall<Message, Tx>,
  leaveAt: number,
): Promise<void> {
  let waitMs = firstWaitMs;
  for (;;) {
    const leftMs = Math.min(leaveAt - performance.now(), run.time.untilReturnMs());
    if (leftMs <= 0) return leaveToLease(run, call);
    await sleep(Math.min(waitMs, leftMs));
    if (await isSent(run, call)) return;
    waitMs = Math.min(2 * waitMs, longestWaitMs);
  }
}

async function isSent<Message extends QueueMessage, Tx>(
  run: RunState<Message, Tx>,
  call: SettleCall<Message, Tx>,
): Promise<boolean> {
  try {
    const startedAt = performance.now();
    const { lost, dead } = await withDeadline(run.config.settleTimeoutMs, "A settlement", (signal) =>
      call.send({ signal }),
    );
    run.time.storeCallTook(performance.now() - startedAt);
    confirm(run, call, new Set(lost), dead.length);
    return true;
  } catch (error) {
    const messages = call.messages.length;
    run.logger.error("settling failed", { call: call.count, messages, error: safeReason(error) });
    return false;
  }
}

/** The messages are claimed again when their lease has expired. */
function leaveToLease<Message extends QueueMessage, Tx>(
  run: RunState<Message, Tx>,
  { messages }: SettleCall<Message, Tx>,
): void {
  for (const held of messages) {
    if (held.later === undefined) letGo(run, held);
    else settleLater(run, held, held.later);
  }
}

function confirm<Message extends QueueMessage, Tx>(
  run: RunState<Message, Tx>,
  { messages, count }: SettleCall<Message, Tx>,
  lost: ReadonlySet<unknown>,
  dead: number,
): void {
  let settled = 0;
  let notHeld = 0;
  for (const held of messages) {
    const { later } = held;
    const isLost = lost.has(held.message);
    if (isLost && later !== undefined) {
      settleLater(run, held, later);
      continue;
    }
    run.counts[isLost ? "lost" : count]++;
    if (isLost) notHeld++;
    else settled++;
    letGo(run, held);
    // It was claimed after this settlement, so it is due again: it was abandoned or released.
    if (later !== undefined) run.waiting.push(later);
  }
  countMessages(run, "oncebox.lease.lost", notHeld);
  // A message that became dead is not retried. The store counts it: it also knows those that no dispatcher made dead.
  if (count !== "failed") countMessages(run, settledAs[count], settled - dead);
}

const settledAs: Readonly<Record<"acked" | "abandoned" | "released", MessageCount>> = {
  acked: "oncebox.acked",
  abandoned: "oncebox.retried",
  released: "oncebox.released",
};

/** The message was claimed again before this settlement reached the database. It is settled under that lease instead. */
function settleLater<Message extends QueueMessage, Tx>(
  run: RunState<Message, Tx>,
  held: HeldMessage<Message, Tx>,
  later: HeldMessage<Message, Tx>,
): void {
  const decision = held.decision!;
  // The expiry of the first lease has counted the attempt.
  toSettling(run, later, decision.kind === "abandon" ? { ...decision, costsAttempt: false } : decision);
}
