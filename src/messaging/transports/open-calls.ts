import { abortAfter } from "../../base/abort-after.js";
import { TransportError } from "./transport-error.js";

/** The calls of one transport that are under way. Each has a time limit, and `close` ends all of them. */
export interface OpenCalls {
  run<T>(receiver: string, outer: AbortSignal, work: (signal: AbortSignal) => Promise<T>): Promise<T>;
  /** Aborts what is under way, waits for it, and refuses new calls. */
  close(): Promise<void>;
}

export function openCalls(timeoutMs: number): OpenCalls {
  const running = new Map<AbortController, Promise<unknown>>();
  let isClosed = false;
  const closed = (receiver: string) =>
    new TransportError(`Nothing can be sent to ${receiver}: the transport is closed.`);

  async function limited<T>(
    receiver: string,
    stop: AbortController,
    work: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const tooLate = () => new TransportError(`${receiver} did not respond within ${timeoutMs} ms.`);
    try {
      return await abortAfter(timeoutMs, work, tooLate, stop.signal);
    } catch (error) {
      throw stop.signal.aborted ? stop.signal.reason : error;
    }
  }

  return {
    async run(receiver, outer, work) {
      outer.throwIfAborted();
      if (isClosed) throw closed(receiver);
      const stop = new AbortController();
      const abort = () => stop.abort(outer.reason);
      outer.addEventListener("abort", abort, { once: true });
      const call = limited(receiver, stop, work);
      running.set(stop, call);
      try {
        return await call;
      } finally {
        running.delete(stop);
        outer.removeEventListener("abort", abort);
      }
    },
    async close() {
      isClosed = true;
      for (const stop of running.keys()) stop.abort(closed("the receiver"));
      await Promise.allSettled(running.values());
    },
  };
}
