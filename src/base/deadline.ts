import { withinTime } from "./within-time.js";

/**
 * Runs `work` with a deadline. When `ms` have passed, its signal is aborted and the call rejects, also when the work does
 * not react to the signal.
 */
export async function withDeadline<T>(
  ms: number,
  what: string,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const controller = new AbortController();
  return withinTime(ms, work(controller.signal), () => {
    const reason = new DOMException(`${what} took longer than ${Math.round(ms)} ms.`, "TimeoutError");
    controller.abort(reason);
    return reason;
  });
}
