/** Learns from the last durations of something how long the next one is likely to take. */
export interface DurationEstimate {
  /** The share of the known ones that took no longer, 0 to 1. Until one is known, the guess is. */
  shareWithin(ms: number): number;
  /** What this share of the known ones stayed within. */
  quantileMs(share: number): number;
  meanMs(): number;
  add(ms: number): void;
  /** What was learned no longer counts. */
  forget(): void;
}

/** Enough to tell one in ten from one in three, and few enough to follow a change within seconds. */
const remembered = 32;

export function durationEstimate(guessMs: number): DurationEstimate {
  const last = new Float64Array(remembered);
  let known = 0;
  let next = 0;
  /** None of the known ones took longer. */
  let longest = 0;
  return {
    // Asked before every start, so it counts instead of sorting, and mostly not even that.
    shareWithin(ms) {
      if (known === 0) return guessMs <= ms ? 1 : 0;
      if (longest <= ms) return 1;
      let within = 0;
      for (let index = 0; index < known; index++) if (last[index]! <= ms) within++;
      return within / known;
    },
    quantileMs(share) {
      if (known === 0) return guessMs;
      return last.slice(0, known).sort()[Math.floor(share * (known - 1))]!;
    },
    meanMs() {
      if (known === 0) return guessMs;
      let sum = 0;
      for (let index = 0; index < known; index++) sum += last[index]!;
      return sum / known;
    },
    add(ms) {
      last[next] = ms;
      longest = next === 0 ? last.reduce((most, one) => Math.max(most, one), 0) : Math.max(longest, ms);
      next = (next + 1) % remembered;
      known = Math.min(known + 1, remembered);
    },
    forget() {
      last.fill(0);
      known = 0;
      next = 0;
    },
  };
}
