import { abortAfter } from "../base/abort-after.js";

/** A call of the store with a deadline: its signal then aborts, and the call rejects even if it ignores the signal. */
export const withDeadline = <T>(
  ms: number,
  what: string,
  call: (signal: AbortSignal) => Promise<T>,
): Promise<T> =>
  abortAfter(
    ms,
    call,
    () => new DOMException(`${what} took longer than ${Math.round(ms)} ms.`, "TimeoutError"),
  );
