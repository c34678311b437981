import { type AnyMessage, deadState, type QueueKind, statesOf } from "../queue/any-queue.js";
import type { Control } from "../queue/controls.js";
import { type EndedAs, endings } from "../queue/message.js";
import { inboxPhases, type Phase, phases } from "../queue/phase.js";

type StoredMessage = Pick<AnyMessage, "topic" | "attempt" | "lockedUntil"> & {
  readonly state: string;
  readonly source?: string;
  readonly endedAs?: EndedAs | null;
};

const ended: Readonly<Record<string, Phase>> = { Done: "done", Dead: "dead", Failed: "dead", Seen: "seen" };

/** By the same rules as `phases` of a queue's `stats`. */
export function phaseOf(message: StoredMessage, controls: readonly Control[]): Phase {
  const end = message.endedAs ?? ended[message.state];
  if (end !== undefined) return end;
  if (message.lockedUntil !== null) return "running";
  if (controls.some((control) => control.paused && isFor(control, message))) return "paused";
  return message.attempt > 0 ? "retrying" : "waiting";
}

const isFor = ({ scope, name }: Control, message: StoredMessage): boolean =>
  scope === "queue" || name === (scope === "topic" ? message.topic : message.source);

/** Whether the phase depends on the controls. */
export const isUnfinished = ({ state }: { readonly state: string }): boolean => ended[state] === undefined;

/** The phases that messages of a queue can be in. */
export const phasesIn = (queue: QueueKind): readonly Phase[] =>
  queue === "inbox" ? phases : phases.filter((phase) => !inboxPhases.includes(phase));

const isEnding = (phase: Phase): phase is EndedAs => endings.includes(phase as EndedAs);

/** What the store is asked for, to find the messages of this phase: it finds some of others with it. */
export const filterOfPhase = (
  queue: QueueKind,
  phase: Phase,
): { readonly state: string; readonly endedAs?: EndedAs } =>
  isEnding(phase) ? { state: "Done", endedAs: phase } : { state: stateOfPhase(queue, phase) };

const stateOfPhase = (queue: QueueKind, phase: Phase): string => {
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
