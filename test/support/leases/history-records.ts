import { openSync, readFileSync, writeSync } from "node:fs";
import type { RecordedCall, Step } from "./recorded-call.js";

type WithoutResult<Of> = Of extends Step ? Omit<Of, "result"> : never;
export type Call = WithoutResult<Step>;

/** What is written down: each call before it is made, and its return as soon as it is known. */
export type HistoryRecord = { readonly id: number } & Moment &
  ({ readonly key: string; readonly call: Call } | { readonly result: unknown } | { readonly error: string });

export interface Moment {
  /** By `clock`. */
  readonly at: number;
  /** By `Date`. */
  readonly timeOfDay: number;
}

export const moment = (): Moment => ({ at: clock(), timeOfDay: Date.now() });

/** Milliseconds of the machine's monotonic clock, which all of its processes share. */
export const clock = (): number => Number(process.hrtime.bigint()) / 1e6;

/** Appends to a file, one write each: the file of a killed process is whole up to its death, but for its last line. */
export function recordsInto(file: string): (record: HistoryRecord) => void {
  const opened = openSync(file, "a");
  return (record) => void writeSync(opened, `${JSON.stringify(record)}\n`);
}

export function readRecords(file: string): readonly HistoryRecord[] {
  const lines = readFileSync(file, "utf8").split("\n").slice(0, -1);
  return lines.map((line) => JSON.parse(line) as HistoryRecord);
}

export interface History {
  readonly calls: readonly RecordedCall[];
  /** What calls were rejected with. Such a call may have taken effect, like one that never returned. */
  readonly errors: readonly string[];
}

/** The history that some processes wrote, each its own records. */
export function historyOf(processes: readonly (readonly HistoryRecord[])[]): History {
  const histories = processes.map(historyOfOne);
  return {
    calls: histories.flatMap(({ calls }) => calls),
    errors: histories.flatMap(({ errors }) => errors),
  };
}

function historyOfOne(records: readonly HistoryRecord[]): History {
  const calls = new Map<number, RecordedCall>();
  const errors: string[] = [];
  for (const record of records) {
    if ("error" in record) errors.push(record.error);
    else if ("call" in record) calls.set(record.id, called(record));
    else calls.set(record.id, returned(calls.get(record.id)!, record));
  }
  return { calls: [...calls.values()], errors };
}

const called = ({
  key,
  at,
  timeOfDay,
  call,
}: Extract<HistoryRecord, { readonly call: Call }>): RecordedCall => ({
  key,
  calledAt: at,
  returnedAt: Number.POSITIVE_INFINITY,
  timeOfDay: { from: timeOfDay, to: Number.POSITIVE_INFINITY },
  step: call,
});

/** The time of day may have been set back meanwhile. */
const returned = (
  { key, calledAt, timeOfDay: { from }, step }: RecordedCall,
  { at, timeOfDay, result }: Extract<HistoryRecord, { readonly result: unknown }>,
): RecordedCall => ({
  key,
  calledAt,
  returnedAt: at,
  timeOfDay: { from: Math.min(from, timeOfDay), to: Math.max(from, timeOfDay) },
  step: { ...step, result } as Step,
});
