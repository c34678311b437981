interface Event {
  readonly at: number;
  readonly order: number;
  readonly happen: () => void;
}

/** A clock that advances only when all simulated work waits: an hour of a thousand workers takes seconds. */
export interface VirtualTime {
  now(): number;
  sleep(ms: number): Promise<void>;
  after(ms: number, expired: () => void): () => void;
  /** Advances the clock until `work` has ended. */
  run<T>(work: Promise<T>): Promise<T>;
}

/** Event loop ticks after which all simulated work waits for the clock: the scheduler yields once after each change. */
const ticksUntilQuiet = 3;

export function virtualTime(): VirtualTime {
  let nowMs = 0;
  let order = 0;
  const heap: Event[] = [];

  const at = (ms: number, happen: () => void): void => push(heap, { at: nowMs + ms, order: order++, happen });

  return {
    now: () => nowMs,
    sleep: (ms) => new Promise((resolve) => at(ms, resolve)),
    after(ms, expired) {
      let isWanted = true;
      at(ms, () => isWanted && expired());
      return () => {
        isWanted = false;
      };
    },
    async run(work) {
      let ended = false;
      const done = work.finally(() => {
        ended = true;
      });
      done.catch(() => {}); // returned below
      for (;;) {
        for (let tick = 0; tick < ticksUntilQuiet; tick++)
          await new Promise((resolve) => setImmediate(resolve));
        if (ended) return done;
        const next = pop(heap);
        if (next === undefined) throw new Error("All simulated work waits, and no event is left.");
        nowMs = next.at;
        next.happen();
        // Events of the same time happen together.
        while (heap[0]?.at === nowMs) pop(heap)!.happen();
      }
    },
  };
}

const isBefore = (a: Event, b: Event): boolean => a.at < b.at || (a.at === b.at && a.order < b.order);

function push(heap: Event[], event: Event): void {
  let index = heap.push(event) - 1;
  while (index > 0) {
    const parent = (index - 1) >> 1;
    if (!isBefore(event, heap[parent]!)) break;
    heap[index] = heap[parent]!;
    index = parent;
  }
  heap[index] = event;
}

function pop(heap: Event[]): Event | undefined {
  const first = heap[0];
  const last = heap.pop();
  if (first === undefined || last === undefined || heap.length === 0) return first;
  let index = 0;
  for (;;) {
    let child = 2 * index + 1;
    if (child >= heap.length) break;
    if (child + 1 < heap.length && isBefore(heap[child + 1]!, heap[child]!)) child++;
    if (!isBefore(heap[child]!, last)) break;
    heap[index] = heap[child]!;
    index = child;
  }
  heap[index] = last;
  return first;
}
