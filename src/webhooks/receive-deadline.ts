import { abortable } from "../base/abortable.js";
import { processTimers } from "../base/timers.js";
import { InvalidOperationError } from "../errors.js";

/** The time that one request has, from its arrival to its answer. All its steps share it. */
export interface ReceiveDeadline {
  /** Aborts when the time is over. */
  readonly signal: AbortSignal;
  remainingMs(): number;
  /** Starts a step and waits for it. When the time is over it rejects, and starts nothing. */
  within<T>(step: string, work: () => T | Promise<T>): Promise<T>;
  /** The error of a step that the time was not enough for. */
  overAt(step: string): Error;
  /** Ends the timer. */
  end(): void;
}

/** @param startedAt by `performance.now()` */
export function receiveDeadline(receiveMs: number, startedAt: number): ReceiveDeadline {
  const controller = new AbortController();
  const { signal } = controller;
  const remainingMs = () => Math.max(0, startedAt + receiveMs - performance.now());
  const overAt = (step: string) =>
    new InvalidOperationError(`The time of a request, ${receiveMs} ms (receiveMs), was over: ${step}.`);
  const end = processTimers.after(remainingMs(), () => controller.abort());
  return {
    signal,
    remainingMs,
    async within(step, work) {
      // by the clock as well: the timer is late when the process is busy
      if (signal.aborted || remainingMs() === 0) throw overAt(step);
      try {
        return await abortable((async () => work())(), signal);
      } catch (error) {
        throw signal.aborted ? overAt(step) : error;
      }
    },
    overAt,
    end,
  };
}
