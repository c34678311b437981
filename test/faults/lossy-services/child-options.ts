import { openSync, readFileSync, writeSync } from "node:fs";
import type { Place } from "./tables.js";

/** The first argument of a service process, in JSON. */
export interface ServiceChildOptions {
  readonly service: "orders" | "inventory";
  readonly place: Place;
  /** Where the other service is found: the address of the proxy before it. */
  readonly peer: string;
  /** Where the process listens when it starts for the first time. */
  readonly listenAt: string;
  /** How many orders are placed. */
  readonly orders: number;
  readonly notes: string;
}

/** The first argument of a process with both services, in JSON. */
export interface BothChildOptions {
  readonly places: Readonly<Record<"orders" | "inventory", Place>>;
  /** How many orders are placed. */
  readonly orders: number;
  readonly notes: string;
  readonly seed: string;
}

export const childOptions = <Options>(): Options => JSON.parse(process.argv[2]!) as Options;

/** Empty at the first start. */
export const givenAddress = (): string => process.argv[3] ?? "";

/** What a process counts. Each note is one write, so that those of a killed process are kept. */
export interface Notes {
  add(...words: readonly string[]): void;
}

export function openNotes(file: string): Notes {
  const notes = openSync(file, "a");
  return { add: (...words) => void writeSync(notes, `${words.join(" ")}\n`) };
}

/** How often each note was made. */
export function readNotes(file: string): (...words: readonly string[]) => number {
  const counts = new Map<string, number>();
  for (const line of readFileSync(file, "utf8").split("\n")) counts.set(line, (counts.get(line) ?? 0) + 1);
  return (...words) => counts.get(words.join(" ")) ?? 0;
}
