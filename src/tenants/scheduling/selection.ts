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

/** Decides whose turn is next. */
export interface SelectionStrategy {
  /** One turn at a time. */
  readonly sequential: boolean;
  /** `pollTimeoutMs` is the longest time of a poll; undefined for a job that does not dispatch. */
  begin(ids: readonly string[], pollTimeoutMs?: number): Selection;
}

/** One batch from each tenant in order, again and again, until a whole round found nothing. The next run continues there. */
export const roundRobin = (): SelectionStrategy => inRing(() => true);

/** One tenant until it is empty, then the next, until a whole round found nothing. The next run continues there. */
export const drainFirst = (): SelectionStrategy => inRing((end) => end !== "more");

/** Goes around the tenants in order. `movesOn`: whether the tenant after it is next. */
function inRing(movesOn: (end: TurnEnd) => boolean): SelectionStrategy {
  let current: string | undefined;
  return {
    sequential: true,
    begin(ids) {
      let index = current === undefined ? 0 : Math.max(0, ids.indexOf(current));
      let emptyTurns = 0;
      return {
        next: () => (emptyTurns >= ids.length ? undefined : ids[index]),
        ended(_id, end) {
          emptyTurns = end === "more" ? 0 : emptyTurns + 1;
          if (movesOn(end)) index = (index + 1) % ids.length;
          current = ids[index];
        },
      };
    },
  };
}
