import { type Step, stepsOf } from "./explore.js";
import type { Model } from "./promela.js";

/** How often an action is tried, beside the others. */
const weights: Readonly<Record<string, number>> = {
  enqueue: 2,
  claim: 6,
  tick: 5,
  ack: 2,
  abandon: 2,
  fail: 1,
  release: 1,
  renew: 2,
  crash: 3,
  reap: 2,
  replay: 2,
  pause: 1,
  resume: 6,
};

/** Of claims that pass over a row. */
const passingWeight = 2;

/** A claim that finds nothing to lease. The model's claim is not possible then. */
export const emptyClaim: Step = { action: "claims nothing", args: [] };
export const findsNothing = ({ variables }: Model): boolean =>
  variables.claimable![0] === 0 || variables.paused![0] === 1;

/**
 * Returns what does one possible step, chosen by a number: random numbers make a random trace, and the same numbers the same trace.
 * With `isPassing` some claims pass over a row that another transaction has locked.
 */
export function walker(model: Model, isPassing = false): (choice: number) => Step {
  const passes = ({ action, args }: Step) => action === "claim" && args[2] !== model.constants.NONE;
  const steps = stepsOf(model);
  const times = (count: number, own: readonly Step[]) => Array.from({ length: count }, () => own);
  const actions = [
    ...[...model.actions.keys()].flatMap((action) =>
      times(
        weights[action]!,
        steps.filter((step) => step.action === action && !passes(step)),
      ),
    ),
    ...times(isPassing ? passingWeight : 0, steps.filter(passes)),
  ];
  return (choice) => {
    for (let number = choice; ; number = another(number)) {
      const own = actions[number % actions.length]!;
      const possible = own.filter((step) => isPossible(model, step));
      const detail = Math.floor(number / actions.length);
      const step = possible[detail % possible.length];
      if (step !== undefined) {
        model.act(step.action, step.args);
        return step;
      }
      if (own[0]!.action === "claim" && findsNothing(model) && detail % 4 === 0) return emptyClaim;
    }
  };
}

/** Of a linear congruential generator: what is chosen when nothing of the first choice is possible. */
const another = (number: number): number => (Math.imul(number, 1_664_525) + 1_013_904_223) >>> 0;

function isPossible(model: Model, { action, args }: Step): boolean {
  const before = model.state.slice();
  const isDone = model.act(action, args);
  model.state.set(before);
  return isDone;
}
