import { fifo } from "../../base/fifo.js";
import { type RestMemory, resting } from "./idle-backoff.js";
import type { Selection, SelectionStrategy } from "./selection.js";

/** A look at a tenant with nothing to do costs one round trip, a turn with work some fifty messages. */
const looksPerTurn = 8;
/** Nobody needs so long to say that there is nothing: such a turn has found work. */
const longestLookMs = 2_500;
/** How long a tenant that had nothing is left alone, and one that had nothing again and again. */
export const rests = { firstMs: 500, longestMs: 5_000 } as const;

export interface FairRun {
  readonly random: () => number;
  readonly now: () => number;
  /** The longest rest. */
  readonly longestMs: number;
  /** Who rests, from runs before; nobody, where none is given. */
  readonly memory?: RestMemory;
}

/**
 * The default, for functions: nothing is remembered from one run to the next. The order is a new one each time, so
 * that nobody is always the last when time runs out. Everyone is asked once; those that had something stand in line,
 * so between two turns of one everybody else who has work has had one. While there is work, those that had none are
 * asked again after a rest: 0.5 s, then twice as long each time up to 5 s. Where others wait for their turns, eight are,
 * each time that a turn with work has ended.
 */
export const fair = (
  random: () => number = Math.random,
  now: () => number = () => performance.now(),
): SelectionStrategy => ({
  sequential: false,
  begin: (ids) => fairly(ids, { random, now, longestMs: rests.longestMs }),
});

export function fairly(ids: readonly string[], { random, now, ...run }: FairRun): Selection {
  const idle = resting(ids, { ...run, firstMs: rests.firstMs, now });
  const first = fifo(
    shuffled(idle.fromBefore.size === 0 ? ids : ids.filter((id) => !idle.fromBefore.has(id)), random),
  );
  const busy = fifo<string>();
  /** Turns that run, by when they began, the oldest first; and those of them that are sure to have work. */
  const running = new Map<string, number>();
  const working = new Set<string>();
  let looks = 0;

  /** Until it is sure that a turn that runs has found work; undefined when none runs. */
  const workMs = (): number | undefined => {
    if (working.size > 0) return 0;
    const [oldest] = running.values();
    return oldest === undefined ? undefined : Math.max(0, oldest + longestLookMs - now());
  };
  const lookAgain = (): string | undefined => {
    if (busy.size() === 0) return workMs() === 0 ? idle.take() : undefined; // nobody waits for this place
    const id = looks > 0 ? idle.take() : undefined;
    if (id !== undefined) looks--;
    return id;
  };
  const worker = (): string | undefined => {
    const id = busy.take();
    if (id !== undefined) working.add(id);
    return id;
  };

  return {
    next() {
      const id = first.take() ?? lookAgain() ?? worker();
      if (id !== undefined) running.set(id, now());
      return id;
    },
    ended(id, end) {
      running.delete(id);
      if (working.size > 0) working.delete(id);
      if (end === "empty") idle.add(id);
      if (end !== "more") return;
      idle.worked(id);
      busy.add(id);
      looks = looksPerTurn; // not added up: those who come out of their rest together would all go before who has work
    },
    nextMs() {
      const [rest, work] = [idle.nextMs(), workMs()];
      return rest === undefined || work === undefined ? undefined : Math.max(rest, work);
    },
  };
}

/**
 * For other jobs than dispatching: everyone is asked once, and those that have more stand in line. Who had nothing is
 * not asked again, however long the others take.
 */
export const inTurns = (random: () => number = Math.random): SelectionStrategy => ({
  sequential: false,
  begin(ids) {
    const waiting = fifo(shuffled(ids, random));
    return {
      next: () => waiting.take(),
      ended(id, end) {
        if (end === "more") waiting.add(id);
      },
    };
  },
});

function shuffled(ids: readonly string[], random: () => number): string[] {
  const line = [...ids];
  for (let index = line.length - 1; index > 0; index--) {
    const other = Math.floor(random() * (index + 1));
    [line[index], line[other]] = [line[other]!, line[index]!];
  }
  return line;
}
