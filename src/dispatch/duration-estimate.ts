/** Learns from recent durations how long the next one is likely to take. */
export interface DurationEstimate {
  /** The fraction of the known durations, 0 to 1, that are at most `ms`. Until one is known, the guess counts. */
  fractionWithin(ms: number): number;
  /** The duration that this fraction of the known ones did not exceed. */
  quantileMs(fraction: number): number;
  meanMs(): number;
  add(ms: number): void;
  /** Forgets all known durations. */
  forget(): void;
}

/** Enough to tell one in ten from one in three, few enough to follow a change within seconds. */
const remembered = 32;

export function durationEstimate(guessMs: number): DurationEstimate {
  const last = new Float64Array(remembered);
  let known = 0;
  let next = 0;
  /** At least as long as every known duration. */
  let longest = 0;
  return {
    // Called before every start, so it counts instead of sorting.
    fractionWithin(ms) {
      if (known === 0) return guessMs <= ms ? 1 : 0;
      if (longest <= ms) return 1;
      let within = 0;
      for (let index = 0; index < known; index++) if (last[index]! <= ms) within++;
      return within / known;
    },
    quantileMs(fraction) {
      if (known === 0) return guessMs;
      return last.slice(0, known).sort()[Math.floor(fraction * (known - 1))]!;
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
