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
