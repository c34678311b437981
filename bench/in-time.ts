import { withinTime } from "../src/base/async.js";

/** Waits for something of a measurement. One that never ends would hang the run and say nothing. */
export const inTime = <T>(ms: number, what: () => string, work: Promise<T>): Promise<T> =>
  withinTime(ms, work, () => new Error(`${what()} took longer than ${ms / 1_000} s.`));
