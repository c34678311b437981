import { abortable } from "../base/abortable.js";

export interface SharedTripsOptions<Item, Answer> {
  /** On a trip of its own. */
  readonly alone: (item: Item, signal: AbortSignal | undefined) => Promise<Answer>;
  /**
   * In one trip; the answers are in the items' order. None of them has the same key as another. The signal is aborted
   * when all of them have been given up.
   */
  readonly together: (items: readonly Item[], signal: AbortSignal | undefined) => Promise<readonly Answer[]>;
  readonly keyOf: (item: Item) => string;
  readonly sizeOf: (item: Item) => number;
  /** The database did not get to the items at all: to try each alone would only fail once more for each. */
  readonly isOutage: (error: unknown) => boolean;
}

interface Waiting<Item, Answer> {
  readonly item: Item;
  readonly key: string;
  readonly signal: AbortSignal | undefined;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: unknown) => void;
}

/** On their way at once. One more would take a connection from others, and a commit of its own from the server. */
const mostTrips = 4;
/** What one trip carries, so that it stays a short one. */
const mostItems = 100;
const mostSize = 1_000_000;

/**
 * Single calls, as webhooks make them, that share round trips when there are many: the first few go out at once, and
 * what comes while they are on their way travels together as soon as one of them is back. So nobody waits to make a
 * group full, and a burst costs the database a commit for each group instead of one for each call.
 */
export function sharedTrips<Item, Answer>(
  options: SharedTripsOptions<Item, Answer>,
): (item: Item, signal: AbortSignal | undefined) => Promise<Answer> {
  const { alone, together, keyOf, sizeOf, isOutage } = options;
  let waiting: Waiting<Item, Answer>[] = [];
  let trips = 0;

  /** The longest waiting ones that may go together. */
  const nextGroup = (): readonly Waiting<Item, Answer>[] => {
    const group: Waiting<Item, Answer>[] = [];
    const left: Waiting<Item, Answer>[] = [];
    const keys = new Set<string>();
    let size = 0;
    for (const one of waiting) {
      if (one.signal?.aborted) continue; // it has been told
      size += sizeOf(one.item);
      const fits = group.length === 0 || (group.length < mostItems && size <= mostSize);
      if (!fits || keys.has(one.key)) left.push(one);
      else {
        keys.add(one.key);
        group.push(one);
      }
    }
    waiting = left;
    return group;
  };

  const rejectAll = (group: readonly Waiting<Item, Answer>[], error: unknown): void => {
    for (const { reject } of group) reject(error);
  };

  /** One after the other, until it turns out that the database is away. */
  const sendEach = async (group: readonly Waiting<Item, Answer>[]): Promise<void> => {
    for (const [index, { item, signal, resolve, reject }] of group.entries()) {
      try {
        resolve(await alone(item, signal));
      } catch (error) {
        reject(error);
        if (!signal?.aborted && isOutage(error)) return rejectAll(group.slice(index + 1), error);
      }
    }
  };

  const send = async (group: readonly Waiting<Item, Answer>[]): Promise<void> => {
    if (group.length === 1) return sendEach(group);
    const { signal, stop } = givenUpByAll(group.map((one) => one.signal));
    try {
      const items = group.map(({ item }) => item);
      const answers = await together(items, signal);
      for (const [index, { resolve }] of group.entries()) resolve(answers[index]!);
    } catch (error) {
      // Nothing of the group is in: each gets its own answer, so that one bad item fails for itself only.
      if (signal?.aborted || isOutage(error)) rejectAll(group, error);
      else await sendEach(group);
    } finally {
      stop();
    }
  };

  const back = (): void => {
    const group = nextGroup();
    if (group.length === 0) trips--;
    else void send(group).then(back);
  };

  return (item, signal) => {
    if (trips < mostTrips) {
      trips++;
      const answer = alone(item, signal);
      answer.then(back, back);
      return answer;
    }
    const answer = new Promise<Answer>((resolve, reject) => {
      waiting.push({ item, key: keyOf(item), signal, resolve, reject });
    });
    return abortable(answer, signal);
  };
}

/**
 * Aborted with the last of them. Without it, a trip to a server that does not answer would keep its place when nobody
 * waits for it any more, and four of them would keep everybody else from leaving.
 */
function givenUpByAll(signals: readonly (AbortSignal | undefined)[]): {
  readonly signal: AbortSignal | undefined;
  readonly stop: () => void;
} {
  const each = signals.filter((signal) => signal !== undefined);
  if (each.length < signals.length) return { signal: undefined, stop: () => {} };
  const all = new AbortController();
  const check = (): void => {
    if (each.every((signal) => signal.aborted)) all.abort();
  };
  for (const signal of each) signal.addEventListener("abort", check);
  return {
    signal: all.signal,
    stop: () => {
      for (const signal of each) signal.removeEventListener("abort", check);
    },
  };
}
