import { type QueueKind, queueKinds } from "../queue/any-queue.js";
import type { ControlTarget } from "../queue/controls.js";
import { text, UsageError, type Values } from "./command.js";
import { queuesOf } from "./message-filter.js";
import { storeHelp, storeOptions } from "./queue-stores.js";

/** The options of `pause`, `resume` and `limit`. */
export const controlOptions = {
  topic: { type: "string" },
  source: { type: "string" },
  all: { type: "boolean" },
  queue: { type: "string" },
  by: { type: "string" },
  ...storeOptions,
} as const;

export const controlHelp = {
  topic: "the messages of this topic",
  source: "the messages of this source, in the inbox",
  all: "all messages of the queue",
  queue: "inbox or outbox; both by default",
  by: "who does it, for the record that `oncebox dead operations` lists; your user name by default",
  ...storeHelp,
};

export interface ChosenControl {
  readonly target: ControlTarget;
  /** Only the inbox has sources. */
  readonly queues: readonly QueueKind[];
  /** For people, such as `the topic "mail"`. */
  readonly what: string;
}

/** What the command line names: one topic, one source, or everything. */
export function chosenControl(values: Values): ChosenControl {
  const topic = text(values, "topic");
  const source = text(values, "source");
  const given = [topic, source, values.all || undefined].filter((one) => one !== undefined);
  if (given.length !== 1) throw new UsageError("Name one of --topic TOPIC, --source SOURCE and --all.");
  if (topic !== undefined)
    return { target: { topic }, queues: queuesOf(values), what: `the topic "${topic}"` };
  if (source !== undefined)
    return { target: { source }, queues: queuesOf(values), what: `the source "${source}"` };
  return { target: "all", queues: queuesOf(values), what: "all messages" };
}

export const inQueues = (queues: readonly QueueKind[]): string =>
  queues.length === queueKinds.length ? "inbox and outbox" : queues.join(" and ");
