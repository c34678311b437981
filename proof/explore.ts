import { type Model, Violation } from "./promela.js";

/** An action with its arguments. */
export interface Step {
  readonly action: string;
  readonly args: readonly number[];
}

/** As the model calls it: `claim(1, 2, 255)`. */
export const stepText = ({ action, args }: Step): string => `${action}(${args.join(", ")})`;

export interface Counterexample {
  readonly rule: string;
  readonly steps: readonly Step[];
}

export interface Exploration {
  readonly states: number;
  readonly transitions: number;
  /** A shortest one. */
  readonly counterexample?: Counterexample;
}

const none = 255;
const upTo = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, index) => from + index);

/** Every action with every argument, as the processes of the model have them. */
export function stepsOf({ actions, constants }: Model): readonly Step[] {
  const { N, T, KEYS, BATCH } = constants as Record<"N" | "T" | "KEYS" | "BATCH", number>;
  const domain = (action: string, parameter: string): readonly number[] => {
    switch (parameter) {
      case "t":
        return upTo(1, T);
      case "m":
        return upTo(0, N - 1);
      case "n":
        return upTo(1, BATCH);
      case "k":
        return action === "ack" ? [none, ...upTo(0, KEYS)] : upTo(0, KEYS);
      case "answered":
        return [1, 0];
      case "passed":
        return [none, ...upTo(0, N - 1)];
      default:
        throw new Error(`${action}: nobody knows the values of ${parameter}.`);
    }
  };
  return [...actions].flatMap(([action, parameters]) =>
    parameters
      .reduce<readonly (readonly number[])[]>(
        (lists, parameter) =>
          lists.flatMap((list) => domain(action, parameter).map((value) => [...list, value])),
        [[]],
      )
      .map((args) => ({ action, args })),
  );
}

/** No message is to be handled: each is done or dead, or blocked behind a dead one. */
const hasEnded = ({ variables, constants }: Model): boolean => !variables.status!.includes(constants.READY!);

/**
 * Visits every state that can be reached, the nearest first. Every state satisfies the model's assertions, and from every state one can
 * be reached in which all messages have ended. Whether they do end is for Spin to say, which knows fairness.
 */
export function explore(model: Model): Exploration {
  const steps = stepsOf(model);
  const { state } = model;
  const numbers = new Map<string, number>();
  const states: Uint8Array[] = [];
  const cameFrom: number[] = [];
  const cameBy: number[] = [];
  const predecessors: number[][] = [];
  const ended: number[] = [];
  let transitions = 0;

  const visit = (from: number, by: number): void => {
    const name = String.fromCharCode(...state);
    let number = numbers.get(name);
    if (number === undefined) {
      number = states.length;
      numbers.set(name, number);
      states.push(state.slice());
      cameFrom.push(from);
      cameBy.push(by);
      predecessors.push([]);
      if (hasEnded(model)) ended.push(number);
    }
    if (from >= 0) predecessors[number]!.push(from);
  };
  const pathTo = (number: number): readonly Step[] => {
    const path: Step[] = [];
    for (let at = number; cameFrom[at]! >= 0; at = cameFrom[at]!) path.unshift(steps[cameBy[at]!]!);
    return path;
  };

  visit(-1, -1);
  for (let at = 0; at < states.length; at++) {
    for (const [by, step] of steps.entries()) {
      state.set(states[at]!);
      try {
        if (!model.act(step.action, step.args)) continue;
      } catch (error) {
        if (!(error instanceof Violation)) throw error;
        const counterexample = { rule: error.rule, steps: [...pathTo(at), step] };
        return { states: states.length, transitions, counterexample };
      }
      transitions++;
      visit(at, by);
    }
  }

  const stuck = firstStuck(predecessors, ended);
  if (stuck === undefined) return { states: states.length, transitions };
  return { states: states.length, transitions, counterexample: { rule: "ends", steps: pathTo(stuck) } };
}

/** The nearest state from which no end can be reached. */
function firstStuck(
  predecessors: readonly (readonly number[])[],
  ended: readonly number[],
): number | undefined {
  const canEnd = new Uint8Array(predecessors.length);
  const open = [...ended];
  for (const number of ended) canEnd[number] = 1;
  for (let number = open.pop(); number !== undefined; number = open.pop()) {
    for (const before of predecessors[number]!) {
      if (canEnd[before]) continue;
      canEnd[before] = 1;
      open.push(before);
    }
  }
  const stuck = canEnd.indexOf(0);
  return stuck === -1 ? undefined : stuck;
}
