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

/** A look at a tenant with nothing to do costs one round trip, a turn with work some fifty messages. */
const looksPerTurn = 8;

/**
 * The default, for functions: nothing is remembered from one run to the next. The order is a new one each time, so
 * that nobody is always the last when time runs out. Everyone is asked once; those that had something stand in line,
 * so between two turns of one everybody else who has work has had one. While there is work, those that had none are
 * asked again in their order, eight for each turn with work: what comes to them meanwhile waits for so many turns.
 */
export const fair = (random: () => number = Math.random): SelectionStrategy => ({
  sequential: false,
  begin(ids) {
    const first = queue(shuffled(ids, random));
    const busy = queue();
    const idle = queue();
    let looks = 0;
    return {
      next() {
        if (first.size() > 0) return first.take();
        if (busy.size() > 0 && looks > 0 && idle.size() > 0) {
          looks--;
          return idle.take();
        }
        return busy.take();
      },
      ended(id, end) {
        if (end === "empty") idle.add(id);
        if (end !== "more") return;
        busy.add(id);
        looks = Math.min(looks + looksPerTurn, idle.size());
      },
    };
  },
});

/** First in, first out, without moving thousands at each step. */
function queue(items: readonly string[] = []) {
  let line = [...items];
  let head = 0;
  return {
    size: () => line.length - head,
    add: (id: string) => void line.push(id),
    take(): string | undefined {
      const id = line[head];
      if (id === undefined) return undefined;
      if (++head > 1_000 && head * 2 > line.length) {
        line = line.slice(head);
        head = 0;
      }
      return id;
    },
  };
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

function shuffled(ids: readonly string[], random: () => number): string[] {
  const line = [...ids];
  for (let index = line.length - 1; index > 0; index--) {
    const other = Math.floor(random() * (index + 1));
    [line[index], line[other]] = [line[other]!, line[index]!];
  }
  return line;
}
