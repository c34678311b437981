import { messageTrace, type TraceStep, type TraceStores } from "../operators/operator-reads.js";
import type { OperatedStores } from "../operators/operators-of.js";
import { optionalHash } from "../queue/arguments.js";
import { inboxPhases, type Phase, phases, type Resolution, resolutions } from "../queue/message.js";
import type { Control } from "../queue/operators.js";
import {
  type AnyMessage,
  type AnyQueue,
  type CallOptions,
  deadState,
  type ListFilter,
  type QueueKind,
  statesOf,
} from "../queue/work-store.js";
import { keyText } from "./page/key-text.js";

export interface PhasedMessage {
  readonly message: AnyMessage;
  readonly phase: Phase;
}

export interface PhasedFilter extends ListFilter<string> {
  readonly phase?: Phase | undefined;
}

/** Pages of the store that are read for one page: a phase may be rare among the messages of its state. */
const maxPages = 20;

/**
 * A page of messages with their phases, and only those of one phase where the filter names it. Where `cursor` is not null there
 * may be more after it, even if this page is short or empty.
 */
export async function listPhased(
  store: AnyQueue,
  queue: QueueKind,
  { phase, state, limit = 100, after, ...filter }: PhasedFilter,
): Promise<{ readonly messages: readonly PhasedMessage[]; readonly cursor: number | null }> {
  const found: PhasedMessage[] = [];
  const wanted = phase === undefined ? { state } : filterOfPhase(queue, phase);
  let cursor: number | null = after ?? 0;
  for (let page = 0; page < maxPages && cursor !== null && found.length < limit; page++) {
    const read = await store.list({ ...filter, ...wanted, limit, after: cursor });
    const phased = await withPhases(store, read.messages, filter);
    found.push(...phased.filter((one) => phase === undefined || one.phase === phase));
    cursor = read.cursor;
  }
  if (found.length <= limit) return { messages: found, cursor };
  const messages = found.slice(0, limit);
  return { messages, cursor: messages.at(-1)!.message.seq };
}

/** The controls are read only where a phase depends on them. */
export async function withPhases(
  store: AnyQueue,
  messages: readonly AnyMessage[],
  { signal }: CallOptions = {},
): Promise<readonly PhasedMessage[]> {
  const controls = messages.some(isUnfinished) ? await store.controls({ signal }) : [];
  return messages.map((message) => ({ message, phase: phaseOf(message, controls) }));
}

export type PhasedStep = TraceStep & { readonly phase: Phase };

/** The trace of one event with the phase of each message. Those that are not finished are read for it: few are. */
export async function phasedTrace(
  stores: OperatedStores,
  id: string,
  call: CallOptions = {},
): Promise<readonly PhasedStep[]> {
  const steps: PhasedStep[] = [];
  for (const step of await messageTrace(stores as unknown as TraceStores, id, call))
    steps.push({ ...step, phase: await phase(stores, step, call) });
  return steps;
}

async function phase(stores: OperatedStores, step: TraceStep, call: CallOptions): Promise<Phase> {
  const withoutLease = () => phaseOf({ ...step, lockedUntil: null }, []);
  if (!isUnfinished(step)) return withoutLease();
  const store = stores[step.queue];
  const message = await store.get(step.key, call);
  if (message === null) return withoutLease(); // it has gone meanwhile
  const [phased] = await withPhases(store, [message], call);
  return phased!.phase;
}

/** A message as API and command line show it. Payload and values of headers may be personal data: they come only on request. */
export function messageView({ message, phase }: PhasedMessage, withContent = false) {
  const { payload, headers, ...fields } = message;
  const hash = "hash" in fields ? { hash: optionalHash(fields.hash) } : {};
  return {
    key: keyText(message),
    phase,
    ...fields,
    ...hash,
    nextAttemptAt: isUnfinished(message) ? message.nextAttemptAt : null, // the row keeps the time of the last one
    payloadBytes: Buffer.byteLength(payload),
    headerNames: Object.keys(headers ?? {}),
    ...(withContent ? { payload, headers } : {}),
  };
}

type StoredMessage = Pick<AnyMessage, "topic" | "attempt" | "lockedUntil"> & {
  readonly state: string;
  readonly source?: string;
  readonly resolution?: Resolution | null;
};

const ended: Readonly<Record<string, Phase>> = { Done: "done", Dead: "dead", Failed: "dead", Seen: "seen" };

/** By the same rules as `phases` of a queue's `stats`. */
function phaseOf(message: StoredMessage, controls: readonly Control[]): Phase {
  const end = message.resolution ?? ended[message.state];
  if (end !== undefined) return end;
  if (message.lockedUntil !== null) return "running";
  if (controls.some((control) => control.paused && isFor(control, message))) return "paused";
  return message.attempt > 0 ? "retrying" : "waiting";
}

const isFor = ({ scope, name }: Control, message: StoredMessage): boolean =>
  scope === "queue" || name === (scope === "topic" ? message.topic : message.source);

/** Whether the phase depends on the controls. */
const isUnfinished = ({ state }: { readonly state: string }): boolean => ended[state] === undefined;

/** The phases that messages of a queue can be in. */
export const phasesIn = (queue: QueueKind): readonly Phase[] =>
  queue === "inbox" ? phases : phases.filter((phase) => !inboxPhases.includes(phase));

const isResolution = (phase: Phase): phase is Resolution => resolutions.includes(phase as Resolution);

/** What the store is asked for, to find the messages of this phase: it finds some of others with it. */
const filterOfPhase = (
  queue: QueueKind,
  phase: Phase,
): { readonly state: string; readonly resolution?: Resolution } =>
  isResolution(phase) ? { state: "Done", resolution: phase } : { state: stateOfPhase(queue, phase) };

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
