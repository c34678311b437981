import { randomUUID } from "node:crypto";
import { withDeadline } from "../base/async.js";
import { isGuid } from "../base/uuid.js";
import { ArgumentRangeError, InvalidArgumentError, knownByCode, type OnceboxErrorInfo } from "../errors.js";
import { nameProblem, problemOf, requireDuration } from "../queue/arguments.js";
import type { CallOptions } from "../queue/work-store.js";

/**
 * Remembers which keys were processed. A consumer asks before it handles a message, and marks the key after it.
 * Every provider has it: SQL, Redis, MongoDB and the HTTP service.
 */
export interface InboxStore {
  isProcessed(key: string, options?: CallOptions): Promise<boolean>;
  /** Marks the key whether it is leased or not. The holder of a lease loses it. */
  markProcessed(key: string, options?: CallOptions): Promise<void>;
}

/** An inbox store that also leases keys, so that of any number of consumers exactly one handles a message. */
export interface LeasingInboxStore extends InboxStore {
  /** Leases the key, unless it is processed or another caller holds it. Of any number of calls at once, exactly one acquires it. */
  tryBegin(key: string, options?: TryBeginOptions): Promise<TryBeginResult>;
  /** Extends the lease to `leaseMs` from now. */
  renew(key: string, leaseId: string, leaseMs: number, options?: CallOptions): Promise<RenewResult>;
  /** Marks the key processed under its lease. It may be repeated: the same lease gets the same result. */
  finish(key: string, leaseId: string, options?: CallOptions): Promise<FinishResult>;
  /** Ends the lease. The key is available to the next caller at once. */
  release(key: string, leaseId: string, options?: CallOptions): Promise<ReleaseResult>;
  inspect(key: string, options?: CallOptions): Promise<KeyReport>;
  /** Closes what the store opened itself. */
  close(): Promise<void>;
}

/** Options of `tryBegin`. */
export interface TryBeginOptions extends CallOptions {
  /** Who asks, for operators to read. It gives no rights: only the lease id does. */
  readonly owner?: string | undefined;
  /** 30 s by default. */
  readonly leaseMs?: number | undefined;
  /**
   * The id that the lease gets: a UUID that the caller made for this call only. A repeated call with the same one gets the
   * same lease, so a call whose answer was lost can be repeated. By default the store makes one.
   */
  readonly leaseId?: string | undefined;
}

/** Whether the key is leased now, was processed before, or is held by another. */
export type TryBeginResult =
  | { readonly status: "Acquired"; readonly leaseId: string; readonly expiresAt: Date }
  | { readonly status: "Processed" }
  /** `expiresAt`: when the holder's lease ends, unless it is renewed. */
  | { readonly status: "Busy"; readonly expiresAt: Date | null };

/** The caller does not hold the key: its lease has expired, or it never had one. Nothing was changed. */
export interface LeaseLost {
  readonly status: "LeaseLost";
}

/** Whether the lease still held the key that was to be renewed. */
export type RenewResult = { readonly status: "Renewed"; readonly expiresAt: Date } | LeaseLost;
/** Whether the lease still held the key that was to be finished. */
export type FinishResult = { readonly status: "Processed" } | LeaseLost;
/** Whether the lease still held the key that was to be released. */
export type ReleaseResult = { readonly status: "Released" } | LeaseLost;

/** What an inbox store knows of a key. */
export type KeyReport =
  | { readonly status: "Unknown" }
  | {
      /** Free: known, and nobody holds it. It was released, or its lease has expired. */
      readonly status: "Processed" | "Leased" | "Free";
      /** How often the key was acquired. */
      readonly attempts: number;
      readonly firstSeenAt: Date;
      /** When a caller last asked to begin the key, or marked it without a lease. */
      readonly lastSeenAt: Date;
      /** Only while it is leased. */
      readonly leaseUntil: Date | null;
      /** The last caller that acquired it, if it said who it is. */
      readonly owner: string | null;
    };

/** Keys longer than this are refused by every provider, so that providers stay interchangeable. */
export const longestKey = 255;
export const longestOwner = 100;
export const defaultLeaseMs = 30_000;

/** Another consumer holds the key. Let the broker deliver the message again: it is then processed, or available. */
export class InboxKeyBusyError extends Error implements OnceboxErrorInfo {
  static readonly code = "ONCEBOX_INBOX_KEY_BUSY";
  static {
    knownByCode(InboxKeyBusyError);
  }

  readonly code = InboxKeyBusyError.code;
  override readonly name = "InboxKeyBusyError";
  readonly key: string;
  /** When the holder's lease ends, unless it is renewed; by the clock of the store. */
  readonly expiresAt: Date | null;

  constructor(key: string, expiresAt: Date | null) {
    const until = expiresAt === null ? "" : ` until ${expiresAt.toISOString()}`;
    super(`Another consumer is handling this message${until}. Let the broker deliver it again.`);
    this.key = key;
    this.expiresAt = expiresAt;
  }
}

/** A lease that is asked for, checked. */
export interface WantedLease {
  readonly leaseId: string;
  /** Whole milliseconds. */
  readonly leaseMs: number;
  readonly owner: string | null;
}

type Signal = AbortSignal | undefined;

/** What a provider implements. Its arguments are checked. `signal` is the caller's, or aborts at the call's deadline. */
export interface KeyCalls {
  isProcessed(key: string, signal: Signal): Promise<boolean>;
  markProcessed(key: string, signal: Signal): Promise<void>;
  tryBegin(key: string, lease: WantedLease, signal: Signal): Promise<TryBeginResult>;
  renew(key: string, leaseId: string, leaseMs: number, signal: Signal): Promise<RenewResult>;
  finish(key: string, leaseId: string, signal: Signal): Promise<FinishResult>;
  release(key: string, leaseId: string, signal: Signal): Promise<ReleaseResult>;
  inspect(key: string, signal: Signal): Promise<KeyReport>;
  close(): Promise<void>;
}

interface CheckedStoreOptions {
  /** Every call ends within this time. A provider that has none bounds its calls itself. */
  readonly timeoutMs?: number;
  /** Turns a holder's lease id into the form that the provider compares: by default lower case. */
  readonly leaseIdOf?: (leaseId: string) => string;
}

/** A provider's calls behind the checks that all providers share. */
export function checkedInboxStore(calls: KeyCalls, options: CheckedStoreOptions = {}): LeasingInboxStore {
  const { timeoutMs, leaseIdOf = (leaseId) => leaseId.toLowerCase() } = options;
  const call = async <T>(
    key: string,
    { signal }: CallOptions = {},
    run: (signal: Signal) => Promise<T>,
  ): Promise<T> => {
    refuse("key", keyProblem(key));
    signal?.throwIfAborted();
    if (timeoutMs === undefined) return run(signal);
    return withDeadline(timeoutMs, "A call of the inbox store", run, signal);
  };
  const underLease = <T>(
    key: string,
    leaseId: string,
    given: CallOptions | undefined,
    run: (id: string, signal: Signal) => Promise<T>,
  ): Promise<T> =>
    call(key, given, async (signal) => {
      // Any other text may be sent: a lease id that no store made holds no key.
      if (typeof leaseId !== "string" || leaseId === "")
        throw new InvalidArgumentError("leaseId must be a non-empty string.");
      return run(leaseIdOf(leaseId), signal);
    });

  return {
    isProcessed: (key, given) => call(key, given, (signal) => calls.isProcessed(key, signal)),
    markProcessed: (key, given) => call(key, given, (signal) => calls.markProcessed(key, signal)),
    tryBegin: (key, given = {}) =>
      call(key, given, async (signal) => calls.tryBegin(key, wantedLease(given), signal)),
    renew: (key, leaseId, leaseMs, given) =>
      underLease(key, leaseId, given, async (id, signal) => {
        requireDuration(leaseMs, "leaseMs");
        return calls.renew(key, id, Math.ceil(leaseMs), signal);
      }),
    finish: (key, leaseId, given) =>
      underLease(key, leaseId, given, (id, signal) => calls.finish(key, id, signal)),
    release: (key, leaseId, given) =>
      underLease(key, leaseId, given, (id, signal) => calls.release(key, id, signal)),
    inspect: (key, given) => call(key, given, (signal) => calls.inspect(key, signal)),
    close: () => calls.close(),
  };
}

/** The lease id is made here, so that a provider that repeats a call after a lost connection finds its own lease. */
function wantedLease(options: TryBeginOptions): WantedLease {
  const { leaseMs = defaultLeaseMs, leaseId = randomUUID(), owner = null } = options;
  requireDuration(leaseMs, "leaseMs");
  if (owner !== null) refuse("owner", ownerProblem(owner));
  if (!isGuid(leaseId)) throw new InvalidArgumentError("leaseId must be a UUID that was made for this call.");
  return { leaseId: leaseId.toLowerCase(), leaseMs: Math.ceil(leaseMs), owner };
}

/** Returns the problem of a key, as the rest of a sentence that begins with its name. The same for every provider. */
export function keyProblem(value: unknown): string | undefined {
  return (
    nameProblem(value) ??
    (/\p{Cc}/u.test(value as string) ? "must not contain control characters." : undefined)
  );
}

function ownerProblem(value: string): string | undefined {
  if (value.length > longestOwner)
    return `has ${value.length} characters; at most ${longestOwner} can be stored.`;
  return keyProblem(value);
}

function refuse(name: string, problem: string | undefined): void {
  if (problem !== undefined) throw new InvalidArgumentError(`${name} ${problem}`);
}

const dayMs = 24 * 60 * 60 * 1000;
export const shortestRetentionMs = 7 * dayMs;
export const longestRetentionMs = 30 * dayMs;

/** How long processed keys are kept: 7 to 30 days. A message that its broker delivers again later is handled again. */
export function retention(value: unknown = longestRetentionMs): number {
  if (typeof value !== "number" || !(value >= shortestRetentionMs && value <= longestRetentionMs)) {
    throw new ArgumentRangeError(
      `retentionMs must be from ${shortestRetentionMs} (7 days) to ${longestRetentionMs} ms (30 days), not ${String(value)}.`,
    );
  }
  return value;
}

/** Runs all checks of an options object, and throws one error with all that they find. */
export function checkAll(what: string, checks: readonly (() => unknown)[]): void {
  const problems = checks.flatMap((check) => problemOf(() => void check()));
  if (problems.length > 0) throw new InvalidArgumentError(`${what}: ${problems.join("; ")}.`);
}

/** Refuses options that have none of these names, or more than one. */
export function requireOneOf(options: object, names: readonly string[]): void {
  const given = names.filter((name) => (options as Readonly<Record<string, unknown>>)[name] !== undefined);
  if (given.length !== 1)
    throw new InvalidArgumentError(`give ${names.join(" or ")}${given.length > 1 ? ", not both" : ""}`);
}
