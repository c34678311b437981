import { type Fifo, fifo } from "../../base/fifo.js";

/** Those that had nothing to do, each until its rest is over: a longer one after every look in a row that found nothing. */
export interface Resting {
  /** It was looked at now, and had nothing. */
  add(id: string): void;
  /** It had something: its next rest is a short one again. */
  worked(id: string): void;
  /** Those that rest from runs before. */
  readonly fromBefore: ReadonlySet<string>;
  /** Whose rest has been over for the longest time. */
  take(): string | undefined;
  /** Until a rest is over, 0 when one is; undefined when nobody rests. */
  nextMs(): number | undefined;
}

export interface RestingOptions {
  /** After the first look that found nothing; twice as long each time, … */
  readonly firstMs: number;
  /** … up to this. */
  readonly longestMs: number;
  readonly now: () => number;
  /** What is known from runs before, and kept for those to come. */
  readonly memory?: RestMemory;
}

/** By tenant, who was looked at last at the end. */
export type RestMemory = Map<string, Rest>;

interface Rest {
  readonly id: string;
  /** Looks in a row that found nothing before this rest. */
  readonly looks: number;
  readonly until: number;
}

/** Of these tenants; others in the memory are left to other runs. */
export function resting(
  ids: readonly string[],
  { firstMs, longestMs, now, memory = new Map() }: RestingOptions,
): Resting {
  /** One for each length of a rest, so that who came first is also the first to be rested. */
  const queues: Fifo<Rest>[] = [];
  const fromBefore = new Set<string>();

  const put = (rest: Rest): void => {
    queues[rest.looks] ??= fifo();
    queues[rest.looks]!.add(rest);
  };
  if (memory.size > 0) {
    const own = new Set(ids);
    for (const [id, rest] of memory) {
      if (rest.until > now()) {
        if (!own.has(id)) continue;
        fromBefore.add(id);
        put(rest);
      } else if (rest.until + longestMs < now()) memory.delete(id); // it has gone, or nobody had the time for it
    }
  }

  const earliest = (): Fifo<Rest> | undefined => {
    let found: Fifo<Rest> | undefined;
    for (const one of queues) {
      const rest = one?.first();
      if (rest !== undefined && rest.until < (found?.first()?.until ?? Number.POSITIVE_INFINITY)) found = one;
    }
    return found;
  };

  return {
    add(id) {
      const before = memory.get(id);
      const isLongest = before !== undefined && firstMs * 2 ** before.looks >= longestMs;
      const looks = before === undefined ? 0 : before.looks + (isLongest ? 0 : 1);
      const rest = { id, looks, until: now() + Math.min(longestMs, firstMs * 2 ** looks) };
      if (before !== undefined) memory.delete(id); // so that it comes last
      memory.set(id, rest);
      put(rest);
    },
    worked: (id) => void memory.delete(id),
    fromBefore,
    take() {
      const those = earliest();
      if (those === undefined || those.first()!.until > now()) return undefined;
      return those.take()!.id;
    },
    nextMs() {
      const rest = earliest()?.first();
      return rest === undefined ? undefined : Math.max(0, rest.until - now());
    },
  };
}
