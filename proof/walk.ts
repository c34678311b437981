import { type Step, stepsOf } from "./explore.js";
import type { Model } from "./promela.js";

/** How often an action is tried, beside the others. */
const weights: Readonly<Record<string, number>> = {
  enqueue: 4,
  claim: 6,
  tick: 4,
  ack: 3,
  abandon: 2,
  fail: 1,
  release: 1,
  renew: 2,
  crash: 2,
  reap: 2,
  replay: 2,
  pause: 1,
  resume: 3,
};

/** A claim that finds nothing to lease. The model's claim is not possible then. */
export const emptyClaim: Step = { action: "claims nothing", args: [] };
export const findsNothing = ({ variables }: Model): boolean =>
  variables.claimable![0] === 0 || variables.paused![0] === 1;

/**
 * Returns what does one possible step, chosen by a number: random numbers make a random trace, and the same numbers the same trace.
 * No row is passed over: there is nobody else who could have locked it.
 */
export function walker(model: Model): (choice: number) => Step {
  const steps = stepsOf(model).filter(
    ({ action, args }) => action !== "claim" || args[2] === model.constants.NONE,
  );
  const actions = [...model.actions.keys()].flatMap((action) => {
    const own = steps.filter((step) => step.action === action);
    return Array.from({ length: weights[action]! }, () => own);
  });
  const doOne = (of: readonly Step[], choice: number): Step | undefined => {
    for (let index = 0; index < of.length; index++) {
      const step = of[(choice + index) % of.length]!;
      if (model.act(step.action, step.args)) return step;
    }
    return undefined;
  };
  return (choice) => {
    const detail = Math.floor(choice / actions.length);
    for (let index = 0; ; index++) {
      const own = actions[(choice + index) % actions.length]!;
      const done = doOne(own, detail);
      if (done !== undefined) return done;
      if (own[0]!.action === "claim" && findsNothing(model)) return emptyClaim;
    }
  };
}
