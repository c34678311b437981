import type { Place } from "./tables.js";

export interface OrdersPlan {
  readonly count: number;
  /** Between two orders. */
  readonly pauseMs: number;
}

/** The first argument of a service process, in JSON. */
export interface ServiceChildOptions {
  readonly service: "orders" | "inventory";
  readonly place: Place;
  /** Where the other service is found: the address of the proxy before it. */
  readonly peer: string;
  /** Where the process listens when it starts for the first time. */
  readonly listenAt: string;
  readonly orders: OrdersPlan;
  readonly notes: string;
}

/** The first argument of a process with both services, in JSON. */
export interface BothChildOptions {
  readonly places: Readonly<Record<"orders" | "inventory", Place>>;
  readonly orders: OrdersPlan;
  readonly notes: string;
  readonly seed: string;
}

export const childOptions = <Options>(): Options => JSON.parse(process.argv[2]!) as Options;

/** Empty at the first start. */
export const givenAddress = (): string => process.argv[3] ?? "";
