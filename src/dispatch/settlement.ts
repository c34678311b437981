import { withoutPayload } from "../base/redact.js";
import { ArgumentRangeError, knownByCode, PayloadNotJsonError } from "../errors.js";
import { backoffMs, longestMs, type RetryPolicy } from "../queue/retry-policy.js";
import type { Otherwise } from "./topic-plans.js";

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
  | { readonly kind: "noHandler"; readonly topic: string; readonly otherwise: Otherwise };

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
  if (end.kind === "noHandler" && end.otherwise === "ack") return ack;
  const error = reasonOf(end, payload);
  const isPermanent =
    (end.kind === "error" && isHopeless(end.error)) || (end.kind === "noHandler" && end.otherwise === "dead");
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
