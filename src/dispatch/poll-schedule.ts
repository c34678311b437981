/** When an empty queue is polled again: soon at first, then less and less often (idle back-off). */
export interface PollSchedule {
  /** Milliseconds until the next poll of a queue that was empty; 0 when one is due. */
  untilNextMs(now: number): number;
  /** Milliseconds until the database may be asked again after it failed. A wake-up does not shorten this wait. */
  untilRetryMs(now: number): number;
  /** A claim returned messages: the next empty one waits for the shortest time again. */
  foundMessages(): void;
  foundNothing(now: number): void;
  /** The database failed: the wait doubles with each failure in a row. */
  failed(now: number): void;
  /** There may be new messages: a poll is due at once, and the idle back-off starts again. */
  wake(): void;
  /** The full length of the current wait, not what is left of it. */
  waitMs(): number;
  /** The wait is over. */
  endWait(): void;
}

export interface PollIntervals {
  /** After the first poll that found nothing. */
  readonly pollMs: number;
  /** The longest wait: it doubles from `pollMs` up to this. */
  readonly idlePollMs: number;
}

export const defaultPollIntervals: PollIntervals = { pollMs: 500, idlePollMs: 5_000 };

export function pollSchedule({ pollMs, idlePollMs }: PollIntervals): PollSchedule {
  const longer = (ms: number): number => Math.min(ms * 2, Math.max(idlePollMs, pollMs));
  let nextWaitMs = pollMs;
  let nextRetryMs = pollMs;
  let presentWaitMs = 0;
  let dueAt = 0;
  let retryAt = 0;
  return {
    waitMs: () => presentWaitMs,
    untilNextMs: (now) => Math.max(0, dueAt - now),
    untilRetryMs: (now) => Math.max(0, retryAt - now),
    foundMessages() {
      nextRetryMs = pollMs;
      nextWaitMs = pollMs;
      dueAt = 0;
    },
    foundNothing(now) {
      nextRetryMs = pollMs;
      presentWaitMs = nextWaitMs;
      dueAt = now + presentWaitMs;
      nextWaitMs = longer(nextWaitMs);
    },
    failed(now) {
      presentWaitMs = nextRetryMs;
      retryAt = now + presentWaitMs;
      nextRetryMs = longer(nextRetryMs);
    },
    wake() {
      nextWaitMs = pollMs;
      dueAt = 0;
    },
    endWait() {
      dueAt = 0;
      retryAt = 0;
    },
  };
}
