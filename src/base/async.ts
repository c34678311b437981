import { setTimeout as delay } from "node:timers/promises";
import { ArgumentRangeError } from "../errors.js";

/** Lets timers, sockets and other work run before the caller goes on. */
export const yieldToEventLoop = (): Promise<void> =>
  new Promise((resolve) => {
    setImmediate(resolve);
  });

/** Waits. An abort rejects at once, with the signal's own reason, unlike `node:timers/promises`. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  let timer: NodeJS.Timeout;
  const slept = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms);
  });
  return abortable(slept, signal, { cancel: () => clearTimeout(timer) });
}

/** Where timers come from: the process's clock, or the clock of a simulation. */
export interface Timers {
  /** Calls `expired` after this time, unless the returned function is called before. */
  after(ms: number, expired: () => void): () => void;
}

export const processTimers: Timers = {
  after(ms, expired) {
    if (ms > longestTimerMs) return () => {}; // 24 days: no process of ours waits for that
    const timer = setTimeout(expired, Math.max(0, ms));
    return () => clearTimeout(timer);
  },
};

/** Node's timers hold 31 bits. A longer one would fire at once. */
export const longestTimerMs = 2 ** 31 - 1;

/**
 * Waits for `work`, but no longer than `ms`: then it rejects with the error that `tooLate` makes. The work itself goes
 * on unless `tooLate` stops it.
 */
export async function withinTime<T>(
  ms: number,
  work: Promise<T>,
  tooLate: () => Error,
  timers: Timers = processTimers,
): Promise<T> {
  let cancel = (): void => {};
  const late = new Promise<never>((_, reject) => {
    cancel = timers.after(ms, () => reject(tooLate()));
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    cancel();
  }
}

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

interface AbortHooks<T> {
  /** Receives a result that arrives after the abort, to release what it holds. */
  readonly late?: (result: T) => void;
  /** Called on abort, to stop the work itself. */
  readonly cancel?: () => void;
}

/** Waits for `work`. An abort rejects at once with the signal's reason. */
export function abortable<T>(
  work: Promise<T>,
  signal: AbortSignal | undefined,
  { late, cancel }: AbortHooks<T> = {},
): Promise<T> {
  if (signal === undefined) return work;
  return new Promise<T>((resolve, reject) => {
    let isAborted = false;
    const stop = (): void => {
      isAborted = true;
      reject(signal.reason);
      cancel?.();
    };
    if (signal.aborted) stop();
    else signal.addEventListener("abort", stop, { once: true });
    work.then(
      (result) => {
        signal.removeEventListener("abort", stop);
        if (isAborted) late?.(result);
        else resolve(result);
      },
      (error: unknown) => {
        signal.removeEventListener("abort", stop);
        reject(error); // does nothing after an abort
      },
    );
  });
}

/** The time that a function has left. 0 means none, never "unknown". A resident process has Infinity. */
export interface Budget {
  /** Fires when no new work may start. Running work may use the remaining time. */
  readonly signal: AbortSignal;
  remainingMs(): number;
}

/** A budget that ends `ms` milliseconds from now. */
export function timeBudget(ms: number, signal: AbortSignal = new AbortController().signal): Budget {
  if (typeof ms !== "number" || !(ms >= 0)) {
    throw new ArgumentRangeError(
      `timeBudget: the time must be a number of milliseconds, 0 or more, not ${String(ms)}.`,
    );
  }
  const end = performance.now() + ms;
  return { signal, remainingMs: () => Math.max(0, end - performance.now()) };
}

/** The budget without its last `ms`, which are kept for what follows the work. */
export const budgetWithoutLast = (budget: Budget, ms: number): Budget => ({
  signal: budget.signal,
  remainingMs: () => Math.max(0, budget.remainingMs() - ms),
});

/**
 * Calls `act` when half of the budget is used: a run that has used half of its time is likely to use all of it. Returns
 * a function that cancels that. A budget without an end has no half-time.
 */
export const atHalfTime = (budget: Budget, act: () => void): (() => void) =>
  processTimers.after(budget.remainingMs() / 2, act);

/** Waits for `ms`. Returns false, possibly at once, where the budget is aborted or has less than twice that time left. */
export async function waitedWithin(budget: Budget, ms: number): Promise<boolean> {
  if (budget.signal.aborted || budget.remainingMs() < 2 * ms) return false;
  return sleep(ms, budget.signal).then(
    () => true,
    () => false,
  );
}

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
      await delay(waitMs, undefined, { signal: waking.signal, ref: keepsAlive }).catch(() => {});
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
