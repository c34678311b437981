/** Learns how long something takes: a moving mean and how far from it the values stray. */
export interface DurationEstimate {
  /** What most of the next ones will stay below; the starting guess until something is known. */
  likelyMs(): number;
  /** What half of them stay below. */
  meanMs(): number;
  add(ms: number): void;
}

/** The weight of the newest value; the classic choice of retransmission timers. */
const weight = 1 / 8;

export function durationEstimate(guessMs: number): DurationEstimate {
  let mean: number | undefined;
  let deviation = 0;
  return {
    meanMs: () => mean ?? guessMs,
    likelyMs: () => (mean === undefined ? guessMs : mean + 2 * deviation),
    add(ms) {
      if (mean === undefined) {
        mean = ms;
        deviation = ms / 4;
        return;
      }
      deviation += weight * (Math.abs(ms - mean) - deviation);
      mean += weight * (ms - mean);
    },
  };
}
