import { longestTimerMs } from "./longest-timer.js";

/**
 * Waits for `work`, but no longer than `ms`: then it rejects with the error that `tooLate` makes. The work itself goes
 * on unless `tooLate` stops it.
 */
export async function withinTime<T>(ms: number, work: Promise<T>, tooLate: () => Error): Promise<T> {
  if (ms > longestTimerMs) return work;
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(tooLate()), Math.max(0, ms));
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}
