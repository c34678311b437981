import { longestTimerMs } from "./longest-timer.js";

/** Where timers come from: the process's clock, or the clock of a simulation. */
export interface Timers {
  /** Calls `expired` after this time, unless the returned function is called before. */
  after(ms: number, expired: () => void): () => void;
}

export const processTimers: Timers = {
  after(ms, expired) {
    if (ms > longestTimerMs) return () => {}; // 24 days: no process of ours waits for that
    const timer = setTimeout(expired, Math.max(0, ms));
    return () => clearTimeout(timer);
  },
};
