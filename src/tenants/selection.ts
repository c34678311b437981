/** What came of a store's turn: nothing was there, something was, or it could not be asked. */
export type TurnEnd = "empty" | "more" | "failed";

/** Which store has the next turn, for one run. Stores are told by their identifiers. */
export interface Selection {
  /** Undefined: none, unless a turn that still runs ends otherwise. */
  next(): string | undefined;
  ended(id: string, end: TurnEnd): void;
}

export interface SelectionStrategy {
  /** Turns one after another, never two at once. */
  readonly sequential: boolean;
  begin(ids: readonly string[]): Selection;
}

/**
 * The default, for functions: nothing is remembered from one run to the next. The order is a new one each time, so
 * that nobody is always the last when time runs out. Everyone is asked once; those that had something go to the end
 * of the line, so between two turns of one everybody else who has work has had one.
 */
export const fair = (random: () => number = Math.random): SelectionStrategy => ({
  sequential: false,
  begin(ids) {
    const line = shuffled(ids, random);
    let head = 0;
    return {
      next: () => (head < line.length ? line[head++] : undefined),
      ended(id, end) {
        if (end === "more") line.push(id);
      },
    };
  },
});

/** Each store in order, one batch from each, round and round, until a whole round found nothing. Goes on where it was. */
export function roundRobin(): SelectionStrategy {
  let last: string | undefined;
  return {
    sequential: true,
    begin(ids) {
      const ring = after(ids, last);
      let index = 0;
      let quiet = 0;
      return {
        next() {
          if (quiet >= ring.length) return undefined;
          last = ring[index++ % ring.length]!;
          return last;
        },
        ended(_id, end) {
          quiet = end === "more" ? 0 : quiet + 1;
        },
      };
    },
  };
}

/** One store until it has nothing left, then the next, until a whole round found nothing. Goes on where it was. */
export function drainFirst(): SelectionStrategy {
  let current: string | undefined;
  return {
    sequential: true,
    begin(ids) {
      const ring = from(ids, current);
      let index = 0;
      let quiet = 0;
      return {
        next() {
          if (quiet >= ring.length) return undefined;
          current = ring[index % ring.length]!;
          return current;
        },
        ended(_id, end) {
          if (end === "more") quiet = 0;
          else {
            quiet++;
            index++;
          }
        },
      };
    },
  };
}

/** The ring, beginning with this one. */
function from(ids: readonly string[], id: string | undefined): readonly string[] {
  const index = id === undefined ? 0 : Math.max(0, ids.indexOf(id));
  return [...ids.slice(index), ...ids.slice(0, index)];
}

function after(ids: readonly string[], id: string | undefined): readonly string[] {
  const index = id === undefined ? 0 : ids.indexOf(id) + 1;
  return [...ids.slice(index), ...ids.slice(0, index)];
}

function shuffled(ids: readonly string[], random: () => number): string[] {
  const line = [...ids];
  for (let index = line.length - 1; index > 0; index--) {
    const other = Math.floor(random() * (index + 1));
    [line[index], line[other]] = [line[other]!, line[index]!];
  }
  return line;
}
