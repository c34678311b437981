/** What came of a store's turn: nothing was there, something was, or it could not be asked. */
export type TurnEnd = "empty" | "more" | "failed";

/** Which store has the next turn, for one run. Stores are told by their identifiers. */
export interface Selection {
  /** Undefined: none, unless a turn that still runs ends otherwise. */
  next(): string | undefined;
  ended(id: string, end: TurnEnd): void;
  /** After `next` named nobody: when to ask it again though no turn has ended. Undefined, or not there: not before one has. */
  nextMs?(): number | undefined;
}

export interface SelectionStrategy {
  /** Turns one after another, never two at once. */
  readonly sequential: boolean;
  begin(ids: readonly string[]): Selection;
}

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
