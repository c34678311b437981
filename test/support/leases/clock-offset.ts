import type { Operation, Range } from "./operation.js";

/** The database's clock less the machine's time of day, 0 where they are one; or two operations that no single offset explains. */
export type ClockOffset =
  | ({ readonly agrees: true } & Range)
  | { readonly agrees: false; readonly operations: readonly [Operation, Operation] };

/** Both times are rounded to a ms, some down and some to the nearest. */
const precisionMs = 2;

/**
 * The bounds of the offset, from the history itself. A lease that was given says when the database read its clock, and that
 * was between the call and its return. Each such operation narrows the bounds: after some hundred they are a few ms wide.
 */
export function clockOffset(operations: readonly Operation[]): ClockOffset {
  let lowest: Operation | undefined;
  let highest: Operation | undefined;
  let from = Number.NEGATIVE_INFINITY;
  let to = Number.POSITIVE_INFINITY;
  for (const operation of operations) {
    const readAt = knownReading(operation);
    if (readAt === undefined) continue;
    const least = readAt - operation.timeOfDay.to - precisionMs;
    const most = readAt - operation.timeOfDay.from + precisionMs;
    if (least > from) [from, highest] = [least, operation];
    if (most < to) [to, lowest] = [most, operation];
  }
  if (from > to) return { agrees: false, operations: [lowest!, highest!] };
  return { agrees: true, from, to };
}

/**
 * When the operation read the database's clock: the end of the lease that it gave, less the lease. A call that proposed its
 * lease id may have found a lease that an earlier one got.
 */
export function knownReading({ step }: Operation): number | undefined {
  if (step.kind !== "tryBegin" && step.kind !== "renew") return undefined;
  if (step.kind === "tryBegin" && step.proposed !== undefined) return undefined;
  const { result, leaseMs } = step;
  const gaveLease = result?.status === "Acquired" || result?.status === "Renewed";
  return gaveLease ? result.expiresAt - leaseMs : undefined;
}

/** The times by the database's clock at which the operation may have read it. */
export function readingOf(operation: Operation, offset: Range): Range {
  const known = knownReading(operation);
  if (known !== undefined) return { from: known, to: known };
  const { from, to } = operation.timeOfDay;
  return { from: from + offset.from, to: to + offset.to };
}
