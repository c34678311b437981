import { InvalidArgumentError } from "../../errors.js";

/** Tenants for one worker invocation. */
export interface TenantBatch {
  readonly tenants: readonly string[];
  /** Milliseconds since 1970: from then on the next timer has handed out everything anew, so nothing is handed on. */
  readonly until: number;
  /** A webhook has come for it: looked at once more after a moment, because a burst is announced once. */
  readonly woken?: boolean;
  /** Of one that is woken and was never sent: nobody knows for which of them. */
  readonly anyOfThem?: boolean;
  /** What is to be done for them, if it is not dispatching. */
  readonly job?: "reap" | "cleanup";
}

/** Hands a share to a worker: starts a function, or puts a message into a queue that does. */
export interface FanOut {
  send(share: TenantBatch): Promise<void>;
  /** Gets ready for it (a client is loaded, say), where that takes time. */
  prepare?(): void;
}

/** The event of an invocation, or the text of a queue's message. */
export const tenantBatchMessage = (share: TenantBatch): string => JSON.stringify({ oncebox: "share", share });

/** The share in an event or a message; undefined when it is something else. */
export function tenantBatchIn(value: unknown): TenantBatch | undefined {
  const { oncebox, share } = (value ?? {}) as { readonly oncebox?: unknown; readonly share?: unknown };
  if (oncebox !== "share") return undefined;
  const { tenants, until, woken, job } = (share ?? {}) as Partial<TenantBatch>;
  const isShare =
    Array.isArray(tenants) &&
    tenants.every((id) => typeof id === "string") &&
    Number.isFinite(until) &&
    (job === undefined || job === "reap" || job === "cleanup");
  if (!isShare) {
    throw new InvalidArgumentError(
      'A share must be { tenants: [keys], until: milliseconds } and, but for dispatching, job: "reap" or "cleanup".',
    );
  }
  return {
    tenants,
    until: until!,
    ...(woken === true ? { woken } : {}),
    ...(job === undefined ? {} : { job }),
  };
}

/** Those of several events or messages. */
export const tenantBatchesIn = (values: readonly unknown[]): readonly TenantBatch[] =>
  mergedBatches(values.map(tenantBatchIn).filter((share) => share !== undefined));

/** A batch of messages is one piece of work for each job. Messages are handled first. */
export function mergedBatches(shares: readonly TenantBatch[]): readonly TenantBatch[] {
  return ([undefined, "reap", "cleanup"] as const).flatMap((job) => {
    const those = shares.filter((share) => share.job === job);
    if (those.length === 0) return [];
    return {
      tenants: [...new Set(those.flatMap((share) => share.tenants))],
      until: Math.max(...those.map((share) => share.until)),
      ...(those.some((share) => share.woken) ? { woken: true } : {}),
      ...(job === undefined ? {} : { job }),
    };
  });
}
