import { readingOf } from "./clock-offset.js";
import { applied, type KeyState, unknownKey } from "./key-state.js";
import type { Operation, Range } from "./operation.js";

/** No order of the operations explains what they returned. */
export interface Violation {
  readonly key: string;
  /** The furthest that an order came: the state there, and the operations of which one would have to be next. */
  readonly state: KeyState;
  readonly stuck: readonly Operation[];
  readonly explained: number;
  /** The search was given up, and there may be an order. */
  readonly isUndecided: boolean;
}

/** Far above what any key of a run needs: then something is wrong with the run. */
const mostStates = 200_000;

interface Place {
  readonly state: KeyState;
  /** 1 for each operation that has its place in the order. */
  readonly placed: Uint8Array;
}

/**
 * Whether the operations on one key could have happened one at a time, each at a moment between its call and its return, with
 * the results they had. The search of Wing and Gong: next in the order may be any operation that was called before all that are
 * not in the order have returned. Places that were found to lead nowhere are remembered, as Lowe does.
 *
 * An operation that fits and changes nothing is put in the order at once: what fits after the others without it fits with it.
 */
export function checkKey(key: string, history: readonly Operation[], offset: Range): Violation | undefined {
  const operations = [...history].sort((a, b) => a.calledAt - b.calledAt);
  const readings = operations.map((operation) => readingOf(operation, offset));
  const returned = operations.filter(({ returnedAt }) => returnedAt < Number.POSITIVE_INFINITY).length;
  const seen = new Set<string>();
  let furthest: Violation | undefined;

  const next = (state: KeyState, index: number): KeyState | undefined =>
    applied(state, operations[index]!.step, readings[index]!);

  /** Puts everything that changes nothing in the order. */
  const settle = ({ state, placed }: Place): void => {
    let again = true;
    while (again) {
      again = false;
      for (const index of candidates(operations, placed)) {
        if (isPending(operations[index]!) || next(state, index) !== state) continue;
        placed[index] = 1;
        again = true;
      }
    }
  };

  const explain = (place: Place): boolean => {
    settle(place);
    const { state, placed } = place;
    const explained = countOf(operations, placed);
    if (explained === returned) return true;
    const name = `${JSON.stringify(state)} ${placed.join("")}`;
    if (seen.has(name) || seen.size >= mostStates) return false;
    seen.add(name);
    const open = candidates(operations, placed);
    if (furthest === undefined || explained > furthest.explained)
      furthest = {
        key,
        state,
        explained,
        stuck: open.map((index) => operations[index]!),
        isUndecided: false,
      };
    // what returned comes first: what did not may have had no effect
    const order = [...open].sort(
      (a, b) => Number(isPending(operations[a]!)) - Number(isPending(operations[b]!)),
    );
    return order.some((index) => {
      const after = next(state, index);
      if (after === undefined || after === state) return false;
      const copy = placed.slice();
      copy[index] = 1;
      return explain({ state: after, placed: copy });
    });
  };

  if (explain({ state: unknownKey, placed: new Uint8Array(operations.length) })) return undefined;
  return { ...furthest!, isUndecided: seen.size >= mostStates };
}

const isPending = ({ returnedAt }: Operation): boolean => returnedAt === Number.POSITIVE_INFINITY;

const countOf = (operations: readonly Operation[], placed: Uint8Array): number =>
  operations.reduce((sum, operation, index) => sum + (isPending(operation) ? 0 : placed[index]!), 0);

/** Operations without a place that were called before any of them returned. They are sorted by their calls. */
function candidates(operations: readonly Operation[], placed: Uint8Array): readonly number[] {
  const found: number[] = [];
  let firstReturn = Number.POSITIVE_INFINITY;
  for (const [index, { calledAt, returnedAt }] of operations.entries()) {
    if (calledAt > firstReturn) break;
    if (placed[index] === 1) continue;
    found.push(index);
    firstReturn = Math.min(firstReturn, returnedAt);
  }
  return found.filter((index) => operations[index]!.calledAt <= firstReturn);
}
