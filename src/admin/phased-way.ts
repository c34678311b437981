import { messageWay, type WayStep } from "../operators/message-way.js";
import type { OperatedStores } from "../operators/with-operators.js";
import { queueOf } from "../queue/any-queue.js";
import type { Phase } from "../queue/phase.js";
import type { CallOptions } from "../queue/work-store.js";
import { withPhases } from "./list-phased.js";
import { isUnfinished, phaseOf } from "./phase.js";

export type PhasedStep = WayStep & { readonly phase: Phase };

/** The way of one event with the phase of each message. Those that are not finished are read for it: few are. */
export async function phasedWay(
  stores: OperatedStores,
  id: string,
  call: CallOptions = {},
): Promise<readonly PhasedStep[]> {
  const steps: PhasedStep[] = [];
  for (const step of await messageWay(stores, id, call))
    steps.push({ ...step, phase: await phase(stores, step, call) });
  return steps;
}

async function phase(stores: OperatedStores, step: WayStep, call: CallOptions): Promise<Phase> {
  const withoutLease = () => phaseOf({ ...step, lockedUntil: null }, []);
  if (!isUnfinished(step)) return withoutLease();
  const store = queueOf(stores, step.queue);
  const message = await store.get(step.key, call);
  if (message === null) return withoutLease(); // it has gone meanwhile
  const [phased] = await withPhases(store, [message], call);
  return phased!.phase;
}
