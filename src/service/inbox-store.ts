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
  /** Ends the lease. The key is free for the next caller at once. */
  release(key: string, leaseId: string, options?: CallOptions): Promise<ReleaseResult>;
  inspect(key: string, options?: CallOptions): Promise<KeyReport>;
  /** Closes what the store opened itself. */
  close(): Promise<void>;
}

export interface TryBeginOptions extends CallOptions {
  /** Who asks, for operators to read. It gives no rights: only the lease id does. */
  readonly owner?: string | undefined;
  /** 30 s by default. */
  readonly leaseMs?: number | undefined;
  /**
   * The id that the lease gets: a UUID that the caller made for this call alone. A repeated call with the same one gets the
   * same lease, so a call whose answer was lost can be repeated. By default the store makes one.
   */
  readonly leaseId?: string | undefined;
}

export type TryBeginResult =
  | { readonly status: "Acquired"; readonly leaseId: string; readonly expiresAt: Date }
  | { readonly status: "Processed" }
  /** `expiresAt`: when the holder's lease ends, unless it is renewed. */
  | { readonly status: "Busy"; readonly expiresAt: Date | null };

/** The caller does not hold the key: its lease has expired, or it never had one. Nothing was changed. */
export interface LeaseLost {
  readonly status: "LeaseLost";
}

export type RenewResult = { readonly status: "Renewed"; readonly expiresAt: Date } | LeaseLost;
export type FinishResult = { readonly status: "Processed" } | LeaseLost;
export type ReleaseResult = { readonly status: "Released" } | LeaseLost;

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
