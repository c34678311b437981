import { openSync, writeSync } from "node:fs";
import { clock, type SoakRecord } from "./records.js";

type WithoutTime<Of> = Of extends { readonly kind: "start" }
  ? Omit<Of, "at" | "seenAt">
  : Of extends SoakRecord
    ? Omit<Of, "at">
    : never;

export type NewRecord = WithoutTime<SoakRecord>;

export interface Recorder {
  write(record: NewRecord): void;
}

/** How often the process notes that it runs. */
const heartbeatMs = 20;
/** A longer time without a heartbeat is recorded. */
const gapMs = 100;

/** Appends records to a file, one write each: the file of a killed process is whole up to its death. */
export function recorder(file: string): Recorder {
  const records = openSync(file, "a");
  const append = (record: object): void => void writeSync(records, `${JSON.stringify(record)}\n`);
  let seenAt = clock();
  /** Returns the time, and when the process was seen before. */
  const see = (): { at: number; before: number } => {
    const at = clock();
    const before = seenAt;
    if (at - before > gapMs) append({ kind: "gap", from: before, at });
    seenAt = at;
    return { at, before };
  };
  setInterval(see, heartbeatMs).unref();
  return {
    write(record) {
      const { at, before } = see();
      append(record.kind === "start" ? { ...record, at, seenAt: before } : { ...record, at });
    },
  };
}
