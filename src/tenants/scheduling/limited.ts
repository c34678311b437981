import { timeLimits } from "../../base/time-limits.js";
import { InvalidOperationError } from "../../errors.js";

const limits = timeLimits();

/** A question to a tenant's database, which is cut off when it takes longer. */
export async function limited<T>(ms: number, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const over = new AbortController();
  const ended = limits.after(ms, () => over.abort(tooSlow(ms)));
  try {
    return await work(over.signal);
  } finally {
    ended();
  }
}

const tooSlow = (ms: number) =>
  new InvalidOperationError(`The database did not say within ${Math.round(ms)} ms whether it has work.`);
