import { withDeadline } from "../queue/store-deadline.js";
import type { CallOptions } from "../queue/work-store.js";
import {
  defaultLeaseMs,
  type FinishResult,
  type KeyReport,
  type LeasingInboxStore,
  type ReleaseResult,
  type RenewResult,
  type TryBeginOptions,
  type TryBeginResult,
} from "./inbox-store.js";
import { newLeaseId, optionalOwner, requireKey, requireLeaseId, requireLeaseMs } from "./key.js";

/** A lease that is asked for, checked. */
export interface WantedLease {
  readonly leaseId: string;
  /** Whole milliseconds. */
  readonly leaseMs: number;
  readonly owner: string | null;
}

/** What a provider implements. Its arguments are checked, and `signal` aborts at the call's deadline. */
export interface KeyOperations {
  isProcessed(key: string, signal: AbortSignal): Promise<boolean>;
  markProcessed(key: string, signal: AbortSignal): Promise<void>;
  tryBegin(key: string, lease: WantedLease, signal: AbortSignal): Promise<TryBeginResult>;
  renew(key: string, leaseId: string, leaseMs: number, signal: AbortSignal): Promise<RenewResult>;
  finish(key: string, leaseId: string, signal: AbortSignal): Promise<FinishResult>;
  release(key: string, leaseId: string, signal: AbortSignal): Promise<ReleaseResult>;
  inspect(key: string, signal: AbortSignal): Promise<KeyReport>;
  close(): Promise<void>;
}

/** A lease id is a UUID, in any case. */
const lowerCase = (leaseId: string): string => leaseId.toLowerCase();

/**
 * A provider's operations behind the checks that all providers share. Every call ends within `timeoutMs`. `leaseIdOf` makes
 * of a holder's lease id the one that the provider compares.
 */
export function checkedInboxStore(
  operations: KeyOperations,
  timeoutMs: number,
  leaseIdOf: (leaseId: string) => string = lowerCase,
): LeasingInboxStore {
  const call = async <T>(
    key: string,
    options: CallOptions | undefined,
    run: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> => {
    requireKey(key);
    options?.signal?.throwIfAborted();
    return withDeadline(timeoutMs, "A call of the inbox store", run, options?.signal);
  };
  const underLease = <T>(
    key: string,
    leaseId: string,
    options: CallOptions | undefined,
    run: (id: string, signal: AbortSignal) => Promise<T>,
  ): Promise<T> =>
    call(key, options, async (signal) => {
      requireLeaseId(leaseId);
      return run(leaseIdOf(leaseId), signal);
    });

  return {
    isProcessed: (key, options) => call(key, options, (signal) => operations.isProcessed(key, signal)),
    markProcessed: (key, options) => call(key, options, (signal) => operations.markProcessed(key, signal)),
    tryBegin: (key, options = {}) =>
      call(key, options, async (signal) => operations.tryBegin(key, wantedLease(options), signal)),
    renew: (key, leaseId, leaseMs, options) =>
      underLease(key, leaseId, options, async (id, signal) => {
        requireLeaseMs(leaseMs);
        return operations.renew(key, id, Math.ceil(leaseMs), signal);
      }),
    finish: (key, leaseId, options) =>
      underLease(key, leaseId, options, (id, signal) => operations.finish(key, id, signal)),
    release: (key, leaseId, options) =>
      underLease(key, leaseId, options, (id, signal) => operations.release(key, id, signal)),
    inspect: (key, options) => call(key, options, (signal) => operations.inspect(key, signal)),
    close: () => operations.close(),
  };
}

function wantedLease(options: TryBeginOptions): WantedLease {
  const { leaseMs = defaultLeaseMs } = options;
  requireLeaseMs(leaseMs);
  const owner = optionalOwner(options.owner);
  return { leaseId: newLeaseId(options.leaseId), leaseMs: Math.ceil(leaseMs), owner };
}
