import { checkHistory } from "../../support/leases/check-history.js";
import type { History } from "../../support/leases/history-records.js";
import { type Operation, statusOf } from "../../support/leases/operation.js";

/** What happened in a run. */
export interface LeaseCounts {
  readonly operations: number;
  readonly acquired: number;
  readonly busy: number;
  readonly released: number;
  /** Calls of one that does not hold the key any more, or never did. */
  readonly refused: number;
  /** Leases that were taken over after their end. */
  readonly expired: number;
  /** Calls whose process was killed before they returned. */
  readonly unreturned: number;
  /** Keys that were processed at the end. */
  readonly processed: number;
  readonly clockBoundsMs: number;
}

export interface LeaseReport {
  readonly counts: LeaseCounts;
  readonly violations: readonly string[];
}

export function reportOf({ operations, errors }: History): LeaseReport {
  const { violations, clockBoundsMs } = checkHistory(operations);
  const returned = (status: string) => operations.filter((one) => statusOf(one) === status).length;
  const acquired = leasesOf(operations);
  const ended = returned("Released") + processedByLease(operations);
  const inspections = operations.filter(({ step }) => step.kind === "inspect");
  const counts = {
    operations: operations.length,
    acquired,
    busy: returned("Busy"),
    released: returned("Released"),
    refused: returned("LeaseLost"),
    expired: acquired - ended,
    unreturned: operations.filter(({ returnedAt }) => returnedAt === Number.POSITIVE_INFINITY).length,
    processed: new Set(inspections.filter((one) => statusOf(one) === "Processed").map(({ key }) => key)).size,
    clockBoundsMs,
  };
  return { counts, violations: [...errors, ...violations] };
}

/** A repeated call that found its own lease is not counted. */
const leasesOf = (operations: readonly Operation[]): number =>
  new Set(
    operations.flatMap(({ step }) =>
      step.kind === "tryBegin" && step.result?.status === "Acquired"
        ? `${step.result.leaseId} ${step.result.expiresAt}`
        : [],
    ),
  ).size;

const processedByLease = (operations: readonly Operation[]): number =>
  new Set(
    operations.flatMap((one) => (one.step.kind === "finish" && statusOf(one) === "Processed" ? one.key : [])),
  ).size;
