import type { Outcome } from "../../support/lossy/line.js";
import type { ServiceProcesses } from "../../support/service-processes.js";
import type { Place } from "./tables.js";

export type ServiceName = "orders" | "inventory";
export type OfBoth<T> = Readonly<Record<ServiceName, T>>;

export interface StagePlan {
  readonly places: OfBoth<Place>;
  /** How many orders are placed. */
  readonly orders: number;
  readonly seed: string;
  /** An empty folder, for sockets. */
  readonly folder: string;
  /** A file for what the processes count. */
  readonly notes: string;
  readonly processes: ServiceProcesses;
  readonly atEnd: (stop: () => Promise<void>) => void;
}

/** Both services, running, with what loses their messages between them. */
export interface Stage {
  readonly kills: OfBoth<number>;
  /** What happened to the calls between them so far. */
  readonly outcomes: Readonly<Record<Outcome, number>>;
  /** Resolves when no call is on its way, late duplicates included. */
  idle(): Promise<void>;
}
