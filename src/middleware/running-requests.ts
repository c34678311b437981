/** A call with the same key runs in this process, and its handler was started. `ended` resolves when it has ended. */
export interface RunningElsewhere {
  readonly kind: "running";
  readonly ended: Promise<unknown>;
}

export interface RunningRequests {
  /**
   * Runs `once` unless a call with the same key runs in this process: `running` when that call's handler was started,
   * `known` when that call found a stored result. `once` calls `starting` before its handler.
   */
  join<Outcome extends { readonly kind: string }>(
    key: string,
    once: (starting: () => void) => Promise<Outcome>,
  ): Promise<Outcome | RunningElsewhere | { readonly kind: "known" }>;
}

/** What a call came to: its handler was started, it found a stored result, or neither. */
type Course = "started" | "known" | "ended";

interface RunningCall {
  readonly course: Promise<Course>;
  readonly ended: Promise<void>;
}

/** The calls of this process by their keys. A second call waits only until the first one's course is clear. */
export function runningRequests(): RunningRequests {
  const running = new Map<string, RunningCall>();
  return {
    async join<Outcome extends { readonly kind: string }>(
      key: string,
      once: (starting: () => void) => Promise<Outcome>,
    ) {
      for (let first = running.get(key); first !== undefined; first = running.get(key)) {
        const course = await first.course;
        if (course === "started") return { kind: "running", ended: first.ended } as const;
        if (course === "known") return { kind: "known" } as const;
      }
      let clear = (_: Course): void => {};
      let end = (): void => {};
      const course = new Promise<Course>((resolve) => {
        clear = resolve;
      });
      const ended = new Promise<void>((resolve) => {
        end = resolve;
      });
      running.set(key, { course, ended });
      let kind: string | undefined;
      try {
        const outcome = await once(() => clear("started"));
        kind = outcome.kind;
        return outcome;
      } finally {
        running.delete(key);
        clear(kind === "known" ? "known" : "ended"); // does nothing after "started"
        end();
      }
    },
  };
}
