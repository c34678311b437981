import { type AnyMessage, deadState, type QueueKind, statesOf } from "../queue/any-queue.js";
import type { Control } from "../queue/controls.js";
import { type Phase, phases } from "../queue/phase.js";

type StoredMessage = Pick<AnyMessage, "topic" | "attempt" | "lockedUntil"> & {
  readonly state: string;
  readonly source?: string;
};

const ended: Readonly<Record<string, Phase>> = { Done: "done", Dead: "dead", Failed: "dead", Seen: "seen" };

/** By the same rules as `phases` of a queue's `stats`. */
export function phaseOf(message: StoredMessage, controls: readonly Control[]): Phase {
  const end = ended[message.state];
  if (end !== undefined) return end;
  if (message.lockedUntil !== null) return "running";
  if (controls.some((control) => control.paused && isFor(control, message))) return "paused";
  return message.attempt > 0 ? "retrying" : "waiting";
}

const isFor = ({ scope, name }: Control, message: StoredMessage): boolean =>
  scope === "queue" || name === (scope === "topic" ? message.topic : message.source);

/** Whether the phase depends on the controls. */
export const isUnfinished = ({ state }: { readonly state: string }): boolean => ended[state] === undefined;

/** The phases that messages of a queue can be in: the outbox knows of no message before it is enqueued. */
export const phasesIn = (queue: QueueKind): readonly Phase[] =>
  queue === "inbox" ? phases : phases.filter((phase) => phase !== "seen");

/** The state of all messages in this phase, and of some in others. */
export const stateOfPhase = (queue: QueueKind, phase: Phase): string => {
  if (phase === "done") return "Done";
  if (phase === "dead") return deadState[queue];
  if (queue === "outbox") return phase === "running" ? "InProgress" : "Ready";
  return phase === "seen" ? "Seen" : "Processing";
};

/** What a text names in any case. A phase comes first: `done` and `dead` are both. */
export function phaseOrState(
  queue: QueueKind,
  text: string,
): { readonly phase: Phase } | { readonly state: string } | undefined {
  const isNamed = (name: string): boolean => name.toLowerCase() === text.toLowerCase();
  const phase = phasesIn(queue).find(isNamed);
  if (phase !== undefined) return { phase };
  const state = statesOf[queue].find(isNamed);
  return state === undefined ? undefined : { state };
}
