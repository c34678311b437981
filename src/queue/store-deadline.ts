import { abortAfter } from "../base/abort-after.js";

/**
 * A call of the store with a deadline: its signal then aborts, and the call rejects even if it ignores the signal. An
 * abort of `outer` aborts the call's signal, too.
 */
export const withDeadline = <T>(
  ms: number,
  what: string,
  call: (signal: AbortSignal) => Promise<T>,
  outer?: AbortSignal,
): Promise<T> =>
  abortAfter(
    ms,
    call,
    () => new DOMException(`${what} took longer than ${Math.round(ms)} ms.`, "TimeoutError"),
    outer,
  );
