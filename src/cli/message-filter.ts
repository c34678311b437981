import { phaseOrState } from "../admin/phase.js";
import { defined } from "../base/defined.js";
import { type QueueKind, queueKinds } from "../queue/any-queue.js";
import type { DeadFilter } from "../queue/dead-letters.js";
import { type Phase, phases } from "../queue/phase.js";
import type { ListFilter } from "../queue/work-store.js";
import { duration, oneOf, text, UsageError, type Values } from "./command.js";

/** The conditions of commands that look for messages, without the state. */
export const filterOptions = {
  queue: { type: "string" },
  topic: { type: "string" },
  source: { type: "string" },
  error: { type: "string" },
  "older-than": { type: "string" },
  "newer-than": { type: "string" },
} as const;

export const filterHelp = {
  queue: "inbox or outbox; both by default",
  topic: "messages of this topic",
  source: "messages of this source, in the inbox",
  error: "messages whose last error has this text in it",
  "older-than": "messages that arrived, or if dead died, longer ago than this, such as 90s, 15m, 1h or 7d",
  "newer-than": "messages that arrived, or if dead died, within this time",
};

export type MessageFilter = Omit<ListFilter<never>, "state" | "signal" | "limit" | "after">;

const age = (values: Values, name: string): number | undefined =>
  values[name] === undefined ? undefined : duration(values, name, "");

/** An empty text would be found in every error. It comes from a shell's variable that is not set. */
function givenText(values: Values, name: string): string | undefined {
  if (values[name] === "") throw new UsageError(`--${name} is empty.`);
  return text(values, name);
}

export const filterOf = (values: Values): MessageFilter =>
  defined({
    topic: givenText(values, "topic"),
    source: givenText(values, "source"),
    error: givenText(values, "error"),
    olderThanMs: age(values, "older-than"),
    newerThanMs: age(values, "newer-than"),
  });

/** The queues that can have such messages: only the inbox has sources. */
export function queuesOf(values: Values): readonly QueueKind[] {
  const chosen = text(values, "queue");
  const queues = chosen === undefined ? queueKinds : [oneOf(queueKinds, chosen, "--queue")];
  if (values.source === undefined) return queues;
  if (!queues.includes("inbox"))
    throw new UsageError("--source is for the inbox: the outbox has no sources.");
  return ["inbox"];
}

export interface QueueState {
  readonly queue: QueueKind;
  readonly phase?: Phase;
  readonly state?: string;
}

/** Each queue with the state to look for. A queue that does not have the state is left out. */
export function statesIn(queues: readonly QueueKind[], values: Values): readonly QueueState[] {
  const wanted = text(values, "state");
  if (wanted === undefined) return queues.map((queue) => ({ queue }));
  const found = queues.flatMap((queue) => {
    const named = phaseOrState(queue, wanted);
    return named === undefined ? [] : [{ queue, ...named }];
  });
  if (found.length > 0) return found;
  throw new UsageError(`--state must be one of ${phases.join(", ")}.`);
}

export const groupOptions = { group: { type: "string" } } as const;
export const groupHelp = { group: "dead messages of this error group, as `dead groups` prints it" };

/** How the group of the messages that died without an error is written. */
const noErrorGroup = "none";

/** An error group as `--group` takes it. */
export const groupName = (errorGroup: string | null): string => errorGroup || noErrorGroup;

export function deadFilterOf(values: Values): DeadFilter {
  const group = givenText(values, "group");
  return defined({ ...filterOf(values), errorGroup: group === noErrorGroup ? "" : group });
}
