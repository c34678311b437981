/** How a turn ended: the store had nothing, may have more, or failed. */
export type TurnEnd = "empty" | "more" | "failed";

/** Chooses the store of the next turn, for one run. Stores are named by their identifiers. */
export interface Selection {
  /** Undefined: no store now. It is called again after a running turn has ended. */
  next(): string | undefined;
  ended(id: string, end: TurnEnd): void;
  /** After `next` returned undefined: when to call it again even if no turn has ended. Undefined: only after one has. */
  nextMs?(): number | undefined;
}

export interface SelectionStrategy {
  /** One turn at a time. */
  readonly sequential: boolean;
  begin(ids: readonly string[]): Selection;
}

/** One batch from each store in order, again and again, until a whole round found nothing. The next run continues there. */
export function roundRobin(): SelectionStrategy {
  let last: string | undefined;
  return {
    sequential: true,
    begin(ids) {
      const ring = ringAfter(ids, last);
      let index = 0;
      let emptyTurns = 0;
      return {
        next() {
          if (emptyTurns >= ring.length) return undefined;
          last = ring[index++ % ring.length]!;
          return last;
        },
        ended(_id, end) {
          emptyTurns = end === "more" ? 0 : emptyTurns + 1;
        },
      };
    },
  };
}

/** One store until it is empty, then the next, until a whole round found nothing. The next run continues there. */
export function drainFirst(): SelectionStrategy {
  let current: string | undefined;
  return {
    sequential: true,
    begin(ids) {
      const ring = ringFrom(ids, current);
      let index = 0;
      let emptyTurns = 0;
      return {
        next() {
          if (emptyTurns >= ring.length) return undefined;
          current = ring[index % ring.length]!;
          return current;
        },
        ended(_id, end) {
          if (end === "more") emptyTurns = 0;
          else {
            emptyTurns++;
            index++;
          }
        },
      };
    },
  };
}

/** The stores in order, beginning with this one. */
function ringFrom(ids: readonly string[], id: string | undefined): readonly string[] {
  return rotated(ids, id === undefined ? 0 : Math.max(0, ids.indexOf(id)));
}

/** The stores in order, beginning with the one after this. */
function ringAfter(ids: readonly string[], id: string | undefined): readonly string[] {
  return rotated(ids, id === undefined ? 0 : ids.indexOf(id) + 1);
}

const rotated = (ids: readonly string[], index: number): readonly string[] => [
  ...ids.slice(index),
  ...ids.slice(0, index),
];
