import { readingOf } from "./clock-offset.js";
import { applied, type KeyState, unknownKey } from "./key-state.js";
import type { Range, RecordedCall } from "./recorded-call.js";

/** No order of the calls explains what they returned. */
export interface Violation {
  readonly key: string;
  /** The furthest that an order came: the state there, and the calls of which one would have to be next. */
  readonly state: KeyState;
  readonly stuck: readonly RecordedCall[];
  readonly explained: number;
  /** The search was given up, and there may be an order. */
  readonly isUndecided: boolean;
}

/** Far above what any key of a run needs: then something is wrong with the run. */
const maxStates = 200_000;

interface Place {
  readonly state: KeyState;
  /** 1 for each call that has its place in the order. */
  readonly placed: Uint8Array;
}

/**
 * Whether the calls on one key could have happened one at a time, each at a moment between its call and its return, with
 * the results they had. The search of Wing and Gong: next in the order may be any call that was called before all that are
 * not in the order have returned. Places that were found to lead nowhere are remembered, as Lowe does.
 *
 * An call that fits and changes nothing is put in the order at once: what fits after the others without it fits with it.
 */
export function checkKey(
  key: string,
  history: readonly RecordedCall[],
  offset: Range,
): Violation | undefined {
  const calls = [...history].sort((a, b) => a.calledAt - b.calledAt);
  const readings = calls.map((call) => readingOf(call, offset));
  const returned = calls.filter(({ returnedAt }) => returnedAt < Number.POSITIVE_INFINITY).length;
  const seen = new Set<string>();
  let furthest: Violation | undefined;

  const next = (state: KeyState, index: number): KeyState | undefined =>
    applied(state, calls[index]!.step, readings[index]!);

  /** Puts everything that changes nothing in the order. */
  const settle = ({ state, placed }: Place): void => {
    let again = true;
    while (again) {
      again = false;
      for (const index of candidates(calls, placed)) {
        if (isPending(calls[index]!) || next(state, index) !== state) continue;
        placed[index] = 1;
        again = true;
      }
    }
  };

  const explain = (place: Place): boolean => {
    settle(place);
    const { state, placed } = place;
    const explained = countOf(calls, placed);
    if (explained === returned) return true;
    const name = `${JSON.stringify(state)} ${placed.join("")}`;
    if (seen.has(name) || seen.size >= maxStates) return false;
    seen.add(name);
    const open = candidates(calls, placed);
    if (furthest === undefined || explained > furthest.explained)
      furthest = {
        key,
        state,
        explained,
        stuck: open.map((index) => calls[index]!),
        isUndecided: false,
      };
    // what returned comes first: what did not may have had no effect
    const order = [...open].sort((a, b) => Number(isPending(calls[a]!)) - Number(isPending(calls[b]!)));
    return order.some((index) => {
      const after = next(state, index);
      if (after === undefined || after === state) return false;
      const copy = placed.slice();
      copy[index] = 1;
      return explain({ state: after, placed: copy });
    });
  };

  if (explain({ state: unknownKey, placed: new Uint8Array(calls.length) })) return undefined;
  return { ...furthest!, isUndecided: seen.size >= maxStates };
}

const isPending = ({ returnedAt }: RecordedCall): boolean => returnedAt === Number.POSITIVE_INFINITY;

const countOf = (calls: readonly RecordedCall[], placed: Uint8Array): number =>
  calls.reduce((sum, call, index) => sum + (isPending(call) ? 0 : placed[index]!), 0);

/** Operations without a place that were called before any of them returned. They are sorted by their calls. */
function candidates(calls: readonly RecordedCall[], placed: Uint8Array): readonly number[] {
  const found: number[] = [];
  let firstReturn = Number.POSITIVE_INFINITY;
  for (const [index, { calledAt, returnedAt }] of calls.entries()) {
    if (calledAt > firstReturn) break;
    if (placed[index] === 1) continue;
    found.push(index);
    firstReturn = Math.min(firstReturn, returnedAt);
  }
  return found.filter((index) => calls[index]!.calledAt <= firstReturn);
}
