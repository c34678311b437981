import { setTimeout as sleep } from "node:timers/promises";

/** Calls `make` at the first use and keeps its promise. A failure is forgotten, so the next caller tries again. */
export function memoisePromise<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | undefined;
  return () => {
    made ??= make().catch((error: unknown) => {
      made = undefined;
      throw error;
    });
    return made;
  };
}

interface SingleFlight<T> {
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

/** Runs `work` on each item in order, at most `atOnce` at a time. Rejects with the first error; work that has started goes on. */
export async function mapLimit<Item>(
  items: Iterable<Item>,
  atOnce: number,
  work: (item: Item) => Promise<void>,
): Promise<void> {
  const all = [...items];
  const left = all.values(); // all workers take from this one iterator
  const worker = async (): Promise<void> => {
    for (const item of left) await work(item);
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, all.length) }, worker));
}

export interface Repeating {
  /** Runs the job now, or once more after the current run. */
  wake(): void;
  /** Waits for the current run. */
  stop(): Promise<void>;
}

interface RepeatingOptions {
  /** Stops it, as `stop` does. */
  readonly signal?: AbortSignal | undefined;
  /** Whether the wait between two runs keeps the process alive: true by default. */
  readonly keepsAlive?: boolean;
}

/**
 * Runs `job` at once and then at an interval, never twice at the same time. The job handles its own errors. A function is
 * asked after each run how long the next one waits.
 */
export function repeating(
  everyMs: number | (() => number),
  job: (signal: AbortSignal) => Promise<void>,
  { signal: outer, keepsAlive = true }: RepeatingOptions = {},
): Repeating {
  const stopping = new AbortController();
  const { signal } = stopping;
  let waking = new AbortController();
  let woken = false;

  const end = (): void => {
    stopping.abort();
    waking.abort();
  };
  const loop = async (): Promise<void> => {
    while (!signal.aborted) {
      woken = false;
      await job(signal);
      if (woken || signal.aborted) continue;
      waking = new AbortController();
      const waitMs = typeof everyMs === "number" ? everyMs : everyMs();
      await sleep(waitMs, undefined, { signal: waking.signal, ref: keepsAlive }).catch(() => {});
    }
    outer?.removeEventListener("abort", end);
  };
  if (outer?.aborted) end();
  else outer?.addEventListener("abort", end);
  const running = loop();

  return {
    wake() {
      woken = true;
      waking.abort();
    },
    async stop() {
      end();
      await running;
    },
  };
}

/** A first-in, first-out list. `take` does not move the other items, of which there may be thousands. */
export interface Fifo<Item> {
  size(): number;
  add(item: Item): void;
  first(): Item | undefined;
  take(): Item | undefined;
}

export function fifo<Item>(items: readonly Item[] = []): Fifo<Item> {
  let list = [...items];
  let head = 0;
  return {
    size: () => list.length - head,
    add: (item) => void list.push(item),
    first: () => list[head],
    take() {
      const item = list[head];
      if (item === undefined) return undefined;
      if (++head > 1_000 && head * 2 > list.length) {
        list = list.slice(head);
        head = 0;
      }
      return item;
    },
  };
}
