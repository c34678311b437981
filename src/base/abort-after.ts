import { withinTime } from "./within-time.js";

/** As `withinTime`, for work that can be stopped: after `ms` its signal aborts with the error that `tooLate` makes. */
export async function abortAfter<T>(
  ms: number,
  work: (signal: AbortSignal) => T | Promise<T>,
  tooLate: () => Error,
): Promise<T> {
  const controller = new AbortController();
  // An async function: an error that `work` throws before it returns a promise is a rejection, too.
  const running = (async () => work(controller.signal))();
  return withinTime(ms, running, () => {
    const error = tooLate();
    controller.abort(error);
    return error;
  });
}
