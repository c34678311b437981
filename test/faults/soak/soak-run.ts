import type { InboxState } from "../../../src/index.js";
import type { SoakTopic } from "./messages.js";
import type { SoakRecord } from "./records.js";
import type { EndedProcess } from "./worker-fleet.js";

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
