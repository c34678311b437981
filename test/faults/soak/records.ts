import { existsSync, readFileSync } from "node:fs";
import type { InboxState } from "../../../src/index.js";
import type { SoakTopic } from "./messages.js";
import type { EndedProcess } from "./worker-fleet.js";

/** Milliseconds of the machine's monotonic clock, which all of its processes share. */
export const clock = (): number => Number(process.hrtime.bigint()) / 1e6;

export type Settling = "ack" | "abandon" | "fail" | "release";

/** What a worker process writes down, each record before anything depends on it. `at` is when it was written. */
export type SoakRecord = { readonly at: number } & (
  | {
      readonly kind: "claim";
      readonly sentAt: number;
      readonly owner: string;
      readonly seqs: readonly number[];
    }
  | ({ readonly kind: "renew"; readonly sentAt: number; readonly owner: string } & Settled)
  | StartFields
  | { readonly kind: "end"; readonly seq: number; readonly owner: string; readonly outcome: Outcome }
  | ({
      readonly kind: "settle";
      readonly what: Settling;
      readonly sentAt: number;
      readonly owner: string;
    } & Settled)
  | FailedFields
  /** The process did not run from `from` until `at`: it was stopped, or got no processor. */
  | { readonly kind: "gap"; readonly from: number }
);

export interface Settled {
  readonly changed: readonly number[];
  readonly lost: readonly number[];
}

/** `stopped`: the handler's signal fired, and it stopped. */
export type Outcome = "ok" | "error" | "stopped";

interface StartFields {
  readonly kind: "start";
  readonly seq: number;
  readonly owner: string;
  /** When the process was last seen running before this record. */
  readonly seenAt: number;
}

interface FailedFields {
  readonly kind: "failed";
  readonly what: Settling | "renew";
  readonly sentAt: number;
  readonly owner: string;
  readonly seqs: readonly number[];
}

export type RecordOf<Kind extends SoakRecord["kind"]> = Extract<SoakRecord, { kind: Kind }>;

/** The records of a process that may have been killed before its first one, or while it wrote its last one. */
export function readRecords(file: string): readonly SoakRecord[] {
  if (!existsSync(file)) return [];
  const lines = readFileSync(file, "utf8").split("\n").slice(0, -1);
  return lines.map((line) => JSON.parse(line) as SoakRecord);
}

export interface SoakProcess extends EndedProcess {
  readonly records: readonly SoakRecord[];
}

/** A message as it is in the database at the end. */
export interface SoakMessage {
  readonly seq: number;
  /** Messages are numbered in the order in which they were enqueued. */
  readonly index: number;
  readonly key: string | null;
  readonly topic: SoakTopic;
  readonly state: InboxState;
  /** By `clock`, and who acknowledged it: of a Done message. */
  readonly doneAt: number | null;
  readonly doneBy: string | null;
  /** How often a transactional handler has written its row. */
  readonly effects: number;
}

/** The database, or the machine, did not serve anybody in this time. */
export interface Stall {
  readonly from: number;
  readonly to: number;
}

export interface SoakRun {
  readonly leaseMs: number;
  readonly messages: readonly SoakMessage[];
  readonly processes: readonly SoakProcess[];
  readonly stalls: readonly Stall[];
}
