import { processTimers, type Timers } from "./timers.js";

/**
 * Waits for `work`, but no longer than `ms`: then it rejects with the error that `tooLate` makes. The work itself goes
 * on unless `tooLate` stops it.
 */
export async function withinTime<T>(
  ms: number,
  work: Promise<T>,
  tooLate: () => Error,
  timers: Timers = processTimers,
): Promise<T> {
  let cancel = (): void => {};
  const late = new Promise<never>((_, reject) => {
    cancel = timers.after(ms, () => reject(tooLate()));
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    cancel();
  }
}
