import type { Operation, Step, StepOf } from "./operation.js";

/** Operations of one key, written by hand: from the call to the return, by a clock that is also the database's. */
const between = (calledAt: number, returnedAt: number, step: Step): Operation => ({
  key: "k",
  calledAt,
  returnedAt,
  timeOfDay: { from: calledAt, to: returnedAt },
  step,
});

type Times = readonly [calledAt: number, returnedAt: number];

export const leaseMs = 1_000;

/** The database read its clock at the call, unless the end of the lease says otherwise. */
export const acquired = ([from, to]: Times, leaseId: string, expiresAt = from + leaseMs): Operation =>
  between(from, to, { kind: "tryBegin", leaseMs, result: { status: "Acquired", leaseId, expiresAt } });

/** By a caller that proposed the lease id. */
export const acquiredOwn = ([from, to]: Times, proposed: string, expiresAt = from + leaseMs): Operation =>
  between(from, to, {
    kind: "tryBegin",
    leaseMs,
    proposed,
    result: { status: "Acquired", leaseId: proposed, expiresAt },
  });

export const busyOwn = ([from, to]: Times, proposed: string): Operation =>
  between(from, to, { kind: "tryBegin", leaseMs, proposed, result: { status: "Busy", expiresAt: null } });

export const busy = ([from, to]: Times, expiresAt: number | null = null): Operation =>
  between(from, to, { kind: "tryBegin", leaseMs, result: { status: "Busy", expiresAt } });

export const foundProcessed = ([from, to]: Times): Operation =>
  between(from, to, { kind: "tryBegin", leaseMs, result: { status: "Processed" } });

export const renewed = ([from, to]: Times, leaseId: string, expiresAt = from + leaseMs): Operation =>
  between(from, to, { kind: "renew", leaseId, leaseMs, result: { status: "Renewed", expiresAt } });

export const finished = ([from, to]: Times, leaseId: string): Operation =>
  between(from, to, { kind: "finish", leaseId, result: { status: "Processed" } });

export const released = ([from, to]: Times, leaseId: string): Operation =>
  between(from, to, { kind: "release", leaseId, result: { status: "Released" } });

export const lost = ([from, to]: Times, kind: "renew" | "finish" | "release", leaseId: string): Operation => {
  const result = { status: "LeaseLost" } as const;
  return between(from, to, kind === "renew" ? { kind, leaseId, leaseMs, result } : { kind, leaseId, result });
};

export const isProcessed = ([from, to]: Times, result: boolean): Operation =>
  between(from, to, { kind: "isProcessed", result });

export const marked = ([from, to]: Times): Operation =>
  between(from, to, { kind: "markProcessed", result: true });

export const inspected = ([from, to]: Times, result: NonNullable<StepOf<"inspect">["result"]>): Operation =>
  between(from, to, { kind: "inspect", result });

/** Of a caller that died before it had the result. */
export const unreturned = (calledAt: number, step: Step): Operation =>
  between(calledAt, Number.POSITIVE_INFINITY, step);
