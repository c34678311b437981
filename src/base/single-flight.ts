export interface SingleFlight<T> {
  /** Starts the work. While it runs, every call gets the same promise. */
  run(): Promise<T>;
  /** The running work; undefined when none runs. */
  current(): Promise<T> | undefined;
}

/** Work that runs once at a time, for all callers that want it meanwhile. Its result is not kept. */
export function singleFlight<T>(work: () => Promise<T>): SingleFlight<T> {
  let running: Promise<T> | undefined;
  return {
    run() {
      running ??= work().finally(() => {
        running = undefined;
      });
      return running;
    },
    current: () => running,
  };
}
