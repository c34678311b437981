/** Node's timers hold 31 bits. A longer one would fire at once. */
export const longestTimerMs = 2 ** 31 - 1;
