/** How a turn ended: the tenant had nothing to do, may have more, or failed. */
export type TurnEnd = "empty" | "more" | "failed";

/** Chooses the tenant of the next turn, for one run. Tenants are named by their keys. */
export interface Selection {
  /** Undefined: no tenant now. It is called again after a running turn has ended. */
  next(): string | undefined;
  ended(id: string, end: TurnEnd): void;
  /** Milliseconds after which to call `next` again although no turn has ended. Undefined: wait until one ends. */
  nextMs?(): number | undefined;
}

export interface SelectionStrategy {
  /** One turn at a time. */
  readonly sequential: boolean;
  /** `pollTimeoutMs` is the longest time of a poll; undefined for a job that does not dispatch. */
  begin(ids: readonly string[], pollTimeoutMs?: number): Selection;
}

/** One batch from each tenant in order, again and again, until a whole round found nothing. The next run continues there. */
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

/** One tenant until it is empty, then the next, until a whole round found nothing. The next run continues there. */
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

/** The tenants in order, beginning with this one. */
function ringFrom(ids: readonly string[], id: string | undefined): readonly string[] {
  return rotated(ids, id === undefined ? 0 : Math.max(0, ids.indexOf(id)));
}

/** The tenants in order, beginning with the one after this. */
function ringAfter(ids: readonly string[], id: string | undefined): readonly string[] {
  return rotated(ids, id === undefined ? 0 : ids.indexOf(id) + 1);
}

const rotated = (ids: readonly string[], index: number): readonly string[] => [
  ...ids.slice(index),
  ...ids.slice(0, index),
];
