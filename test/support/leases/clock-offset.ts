import type { Range, RecordedCall } from "./recorded-call.js";

/** The database's clock less the machine's time of day, 0 where they are one; or two calls that no single offset explains. */
export type ClockOffset =
  | ({ readonly agrees: true } & Range)
  | { readonly agrees: false; readonly calls: readonly [RecordedCall, RecordedCall] };

/** Both times are rounded to a ms, some down and some to the nearest. */
const precisionMs = 2;

/**
 * The bounds of the offset, from the history itself. A lease that was given says when the database read its clock, and that
 * was between the call and its return. Each such call narrows the bounds: after some hundred they are a few ms wide.
 */
export function clockOffset(calls: readonly RecordedCall[]): ClockOffset {
  let lowest: RecordedCall | undefined;
  let highest: RecordedCall | undefined;
  let from = Number.NEGATIVE_INFINITY;
  let to = Number.POSITIVE_INFINITY;
  for (const call of calls) {
    const readAt = knownReading(call);
    if (readAt === undefined) continue;
    const least = readAt - call.timeOfDay.to - precisionMs;
    const most = readAt - call.timeOfDay.from + precisionMs;
    if (least > from) [from, highest] = [least, call];
    if (most < to) [to, lowest] = [most, call];
  }
  if (from > to) return { agrees: false, calls: [lowest!, highest!] };
  return { agrees: true, from, to };
}

/**
 * When the call read the database's clock: the end of the lease that it gave, less the lease. A call that proposed its
 * lease id may have found a lease that an earlier one got.
 */
export function knownReading({ step }: RecordedCall): number | undefined {
  if (step.kind !== "tryBegin" && step.kind !== "renew") return undefined;
  if (step.kind === "tryBegin" && step.proposed !== undefined) return undefined;
  const { result, leaseMs } = step;
  const gaveLease = result?.status === "Acquired" || result?.status === "Renewed";
  return gaveLease ? result.expiresAt - leaseMs : undefined;
}

/** The times by the database's clock at which the call may have read it. */
export function readingOf(call: RecordedCall, offset: Range): Range {
  const known = knownReading(call);
  if (known !== undefined) return { from: known, to: known };
  const { from, to } = call.timeOfDay;
  return { from: from + offset.from, to: to + offset.to };
}
