import type { AnyMessage, AnyQueue, QueueKind } from "../queue/any-queue.js";
import type { Phase } from "../queue/phase.js";
import type { CallOptions, ListFilter } from "../queue/work-store.js";
import { filterOfPhase, isUnfinished, phaseOf } from "./phase.js";

export interface PhasedMessage {
  readonly message: AnyMessage;
  readonly phase: Phase;
}

export interface PhasedPage {
  readonly messages: readonly PhasedMessage[];
  /** Not null: go on after it, even if this page is short or empty. */
  readonly cursor: number | null;
}

export interface PhasedFilter extends ListFilter<string> {
  readonly phase?: Phase | undefined;
}

/** Pages of the store that are read for one page: a phase may be rare among the messages of its state. */
const mostPages = 20;

/** Messages with their phases, and of one phase alone where the filter names it. */
export async function listPhased(
  store: AnyQueue,
  queue: QueueKind,
  { phase, state, limit = 100, after, ...filter }: PhasedFilter,
): Promise<PhasedPage> {
  const found: PhasedMessage[] = [];
  const wanted = phase === undefined ? { state } : filterOfPhase(queue, phase);
  let cursor: number | null = after ?? 0;
  for (let page = 0; page < mostPages && cursor !== null && found.length < limit; page++) {
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
