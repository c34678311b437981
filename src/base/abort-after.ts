import { withinTime } from "./within-time.js";

/**
 * As `withinTime`, for work that can be stopped: after `ms` its signal aborts with the error that `tooLate` makes. An
 * abort of `outer` aborts it too, and the work decides how it ends.
 */
export async function abortAfter<T>(
  ms: number,
  work: (signal: AbortSignal) => T | Promise<T>,
  tooLate: () => Error,
  outer?: AbortSignal,
): Promise<T> {
  const controller = new AbortController();
  const abort = (): void => controller.abort(outer?.reason);
  if (outer?.aborted) abort();
  else outer?.addEventListener("abort", abort, { once: true });
  // An async function: an error that `work` throws before it returns a promise is a rejection, too.
  const running = (async () => work(controller.signal))();
  try {
    return await withinTime(ms, running, () => {
      const error = tooLate();
      controller.abort(error);
      return error;
    });
  } finally {
    outer?.removeEventListener("abort", abort);
  }
}
