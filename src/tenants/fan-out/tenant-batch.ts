import { omitUndefined } from "../../base/defined.js";
import { InvalidArgumentError } from "../../errors.js";

/** The tenants that one worker invocation gets. */
export interface TenantBatch {
  readonly tenants: readonly string[];
  /**
   * Milliseconds since 1970: the time of the next timer, which sends batches of all tenants again. A batch for
   * dispatching that is received later is dropped, and what a worker did not reach is not sent on after it.
   */
  readonly until: number;
  /**
   * A webhook was stored for these tenants. The worker polls them even if they are quarantined, and once more half a
   * second later, because a burst of webhooks sends one batch.
   */
  readonly woken?: boolean;
  /**
   * With `woken`: it is not known for which of the tenants the webhook was stored, so quarantined tenants stay
   * quarantined. Never part of a message.
   */
  readonly anyOfThem?: boolean;
  /** The job for these tenants; undefined for dispatching. */
  readonly job?: "reap" | "cleanup";
}

/** Sends a tenant batch to a worker: invokes a function, or puts a message into a queue that starts one. */
export interface FanOut {
  send(batch: TenantBatch): Promise<void>;
  /** Loads what `send` needs (a client, say) ahead of the first call. */
  prepare?(): void;
}

/** The event of an invocation, or the text of a queue's message. */
export const tenantBatchMessage = (batch: TenantBatch): string =>
  JSON.stringify({ oncebox: "tenantBatch", tenantBatch: batch });

/** The tenant batch in an event or a message; undefined for any other event. */
export function tenantBatchIn(value: unknown): TenantBatch | undefined {
  const { oncebox, tenantBatch } = (value ?? {}) as Readonly<Record<"oncebox" | "tenantBatch", unknown>>;
  if (oncebox !== "tenantBatch") return undefined;
  const { tenants, until, woken, job } = (tenantBatch ?? {}) as Partial<TenantBatch>;
  const isValid =
    Array.isArray(tenants) &&
    tenants.every((id) => typeof id === "string") &&
    Number.isFinite(until) &&
    (job === undefined || job === "reap" || job === "cleanup");
  if (!isValid) {
    throw new InvalidArgumentError(
      'A tenant batch must be { tenants: [keys], until: milliseconds } with job: "reap" or "cleanup", or without a job for dispatching.',
    );
  }
  return { tenants, until: until!, ...omitUndefined({ woken: woken === true ? woken : undefined, job }) };
}

/** The tenant batches of several events or messages, merged. */
export const tenantBatchesIn = (values: readonly unknown[]): readonly TenantBatch[] =>
  mergedBatches(values.map(tenantBatchIn).filter((batch) => batch !== undefined));

/** One batch for each job that occurs, dispatching first. */
export function mergedBatches(batches: readonly TenantBatch[]): readonly TenantBatch[] {
  return ([undefined, "reap", "cleanup"] as const).flatMap((job) => {
    const same = batches.filter((batch) => batch.job === job);
    if (same.length === 0) return [];
    const woken = same.some((batch) => batch.woken) || undefined;
    return {
      tenants: [...new Set(same.flatMap((batch) => batch.tenants))],
      until: Math.max(...same.map((batch) => batch.until)),
      ...omitUndefined({ woken, job }),
    };
  });
}
