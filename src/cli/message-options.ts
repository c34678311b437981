import { userInfo } from "node:os";
import { isOperatorName, operatorRule } from "../admin/access.js";
import { inboxKeyOf, keysMeantBy } from "../admin/page/key-text.js";
import { omitUndefined } from "../base/defined.js";
import { isGuid } from "../base/uuid.js";
import type { DeadFilter } from "../queue/operators.js";
import { type AnyKey, type QueueKind, queueKinds } from "../queue/work-store.js";
import { duration, oneOf, option, text, UsageError, type Values } from "./command.js";

/** The conditions of commands that look for messages, without the state. */
export const filterOptions = {
  queue: option("inbox or outbox; both by default"),
  topic: option("messages of this topic"),
  source: option("messages of this source, in the inbox"),
  error: option("messages whose last error has this text in it"),
  "older-than": option(
    "messages that arrived, or if dead died, longer ago than this, such as 90s, 15m, 1h or 7d",
  ),
  "newer-than": option("messages that arrived, or if dead died, within this time"),
};

export const groupOption = {
  group: option("dead messages of this error group, as `dead groups` prints it"),
};

/** The conditions that the command line gives. `--group` finds dead messages only. */
export function filterOf(values: Values): DeadFilter {
  const group = givenText(values, "group");
  return omitUndefined({
    topic: givenText(values, "topic"),
    source: givenText(values, "source"),
    error: givenText(values, "error"),
    olderThanMs: age(values, "older-than"),
    newerThanMs: age(values, "newer-than"),
    errorGroup: group === noErrorGroup ? "" : group,
  });
}

/** How the group of the messages that died without an error is written. */
const noErrorGroup = "none";

/** An error group as `--group` takes it. */
export const groupName = (errorGroup: string | null): string => errorGroup || noErrorGroup;

const age = (values: Values, name: string): number | undefined =>
  values[name] === undefined ? undefined : duration(values, name, "");

/** An empty text would be found in every error. It comes from a shell's variable that is not set. */
export function givenText(values: Values, name: string): string | undefined {
  if (values[name] === "") throw new UsageError(`--${name} is empty.`);
  return text(values, name);
}

/** The queues that can have such messages: only the inbox has sources. */
export function queuesOf(values: Values): readonly QueueKind[] {
  const chosen = text(values, "queue");
  const queues = chosen === undefined ? queueKinds : [oneOf(queueKinds, chosen, "--queue")];
  if (values.source === undefined) return queues;
  if (!queues.includes("inbox"))
    throw new UsageError("--source is for the inbox: the outbox has no sources.");
  return ["inbox"];
}

export interface MessageKey {
  readonly queue: QueueKind;
  readonly key: AnyKey;
}

export const keyForms = "SOURCE/MESSAGE-ID for the inbox, or the id of an outbox message";

/** Reads KEY, which is what `keyText` writes; with `--source` it is only the message id, as the sender wrote it. */
export function parseKey(argument: string | undefined, values: Values): MessageKey {
  if (argument === undefined || argument === "") throw new UsageError(`KEY is missing: ${keyForms}.`);
  const source = text(values, "source");
  if (source !== undefined) return { queue: "inbox", key: { source, messageId: argument } };
  if (isGuid(argument)) return { queue: "outbox", key: { id: argument.toLowerCase() } };
  const key = inboxKeyOf(argument);
  if (key === undefined) throw new UsageError(problemOf(argument));
  return { queue: "inbox", key };
}

const mostNamed = 5;

/** A text that could be more than one key is refused: `dead discard` must not guess. */
function problemOf(argument: string): string {
  const meant = keysMeantBy(argument).slice(0, mostNamed);
  if (meant.length === 0) return `"${argument}" is not a key: it must be ${keyForms}.`;
  return `"${argument}" is not a key: in a name, "/" is written %2F and "%" is written %25. Do you mean ${meant.join(" or ")}? Or give only the message id, and its source with --source.`;
}

export const byOption = {
  by: option("who does it, for the record that `oncebox dead operations` lists; your user name by default"),
};

/** Who does it, for the record: `--by`, else the user of this process. */
export function operatorName(values: Values): string {
  const by = text(values, "by")?.trim();
  if (by === undefined) return userName();
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
