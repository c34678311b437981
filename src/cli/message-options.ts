import { userInfo } from "node:os";
import { inboxKeyOf, isOperatorName, keysMeantBy, operatorRule } from "../admin/page/key-text.js";
import { phaseOrState } from "../admin/phases.js";
import { omitUndefined } from "../base/defined.js";
import { isGuid } from "../base/uuid.js";
import { type InboxKey, type OutboxKey, type Phase, phases } from "../queue/message.js";
import type { DeadFilter } from "../queue/operators.js";
import { type AnyMessage, type ListFilter, type QueueKind, queueKinds } from "../queue/work-store.js";
import { duration, oneOf, text, UsageError, type Values } from "./command.js";
import type { QueueStores } from "./load-app.js";

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

type MessageFilter = Omit<ListFilter<never>, "state" | "signal" | "limit" | "after">;

const age = (values: Values, name: string): number | undefined =>
  values[name] === undefined ? undefined : duration(values, name, "");

/** An empty text would be found in every error. It comes from a shell's variable that is not set. */
function givenText(values: Values, name: string): string | undefined {
  if (values[name] === "") throw new UsageError(`--${name} is empty.`);
  return text(values, name);
}

const filterOf = (values: Values): MessageFilter =>
  omitUndefined({
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
  return omitUndefined({ ...filterOf(values), errorGroup: group === noErrorGroup ? "" : group });
}

export type MessageKey =
  | { readonly queue: "inbox"; readonly key: InboxKey }
  | { readonly queue: "outbox"; readonly key: OutboxKey };

export const keyForms = "SOURCE/MESSAGE-ID for the inbox, or the id of an outbox message";

/** Reads KEY, which is what `keyText` writes; with `--source` it is the message id alone, as the sender wrote it. */
export function parseKey(argument: string | undefined, values: Values): MessageKey {
  if (argument === undefined || argument === "") throw new UsageError(`KEY is missing: ${keyForms}.`);
  const source = text(values, "source");
  if (source !== undefined) return { queue: "inbox", key: { source, messageId: argument } };
  const isOutboxId: boolean = isGuid(argument);
  if (isOutboxId) return { queue: "outbox", key: { id: argument.toLowerCase() } };
  const key = inboxKeyOf(argument);
  if (key === undefined) throw new UsageError(problemOf(argument));
  return { queue: "inbox", key };
}

const mostNamed = 5;

/** A text that could be more than one key is refused: `dead discard` must not guess. */
function problemOf(argument: string): string {
  const meant = keysMeantBy(argument).slice(0, mostNamed);
  if (meant.length === 0) return `"${argument}" is not a key: it must be ${keyForms}.`;
  return `"${argument}" is not a key: in a name, "/" is written %2F and "%" is written %25. Do you mean ${meant.join(" or ")}? Or give the message id alone, and its source with --source.`;
}

export const getMessage = (stores: QueueStores, { queue, key }: MessageKey): Promise<AnyMessage | null> =>
  queue === "inbox" ? stores.inbox.get(key) : stores.outbox.get(key);

/** Who does it, for the record: `--by`, else the user of this process. */
export function operatorName(values: Values): string {
  const by = text(values, "by")?.trim() ?? userName();
  if (!isOperatorName(by)) throw new UsageError(`--by ${operatorRule}.`);
  return by;
}

function userName(): string {
  try {
    return userInfo().username;
  } catch {
    throw new UsageError("The user of this process has no name. Say with --by NAME who does it."); // as in some containers
  }
}
