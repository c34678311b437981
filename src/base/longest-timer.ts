/** Node's timers hold 31 bits; one that is longer would fire at once. */
export const longestTimerMs = 2 ** 31 - 1;
