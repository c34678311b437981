import type { RequestOutcome } from "./idempotent-requests.js";

export interface RunningRequests {
  /**
   * Runs `once` unless a request with the same key runs in this process: `running` when that request's handler was
   * started, `known` when that request found a stored response. `once` calls `starting` before its handler.
   */
  join(
    key: string,
    once: (starting: () => void) => Promise<RequestOutcome>,
  ): Promise<RequestOutcome | { readonly kind: "running" }>;
}

/** What a request came to: its handler was started, it found a stored response, or neither. */
type Course = "started" | "known" | "ended";

/** The requests of this process by their keys. A second request waits only until the first one's course is clear. */
export function runningRequests(): RunningRequests {
  const running = new Map<string, Promise<Course>>();
  return {
    async join(key, once) {
      for (let first = running.get(key); first !== undefined; first = running.get(key)) {
        const course = await first;
        if (course === "started") return { kind: "running" };
        if (course === "known") return { kind: "known" };
      }
      let clear = (_: Course): void => {};
      const course = new Promise<Course>((resolve) => {
        clear = resolve;
      });
      running.set(key, course);
      let kind: RequestOutcome["kind"] | undefined;
      try {
        const outcome = await once(() => clear("started"));
        kind = outcome.kind;
        return outcome;
      } finally {
        running.delete(key);
        clear(kind === "known" ? "known" : "ended"); // does nothing after "started"
      }
    },
  };
}
