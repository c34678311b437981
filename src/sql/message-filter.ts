import { longestErrorText } from "../base/redact.js";
import { InvalidArgumentError } from "../errors.js";
import { optionalAge, optionalText, refuseUnknown } from "../queue/arguments.js";
import type { DeadFilter } from "../queue/dead-letters.js";
import type { MessageFilter } from "../queue/work-store.js";
import type { SqlParams, SqlValue } from "./driver.js";

export const conditionNames: readonly string[] = [
  "topic",
  "source",
  "error",
  "errorGroup",
  "olderThanMs",
  "newerThanMs",
];

/** The conditions of a filter, checked, without what is absent: what an operation's record keeps. */
export function deadConditions(filter: DeadFilter): Readonly<Record<string, unknown>> {
  // What is no object of conditions has none, and would mean every dead message.
  if (typeof filter !== "object" || filter === null || Symbol.iterator in filter)
    throw new InvalidArgumentError(
      `filter must be an object with ${conditionNames.join(", ")}; {} means all dead messages.`,
    );
  const { signal: _, ...conditions } = filter;
  refuseUnknown(conditions, conditionNames, "filter");
  checkConditions(filter);
  return Object.fromEntries(Object.entries(conditions).filter(([, value]) => value !== undefined));
}

export function checkConditions(filter: MessageFilter): void {
  optionalAge(filter.olderThanMs, "olderThanMs");
  optionalAge(filter.newerThanMs, "newerThanMs");
  for (const name of ["topic", "source", "error", "errorGroup"] as const)
    optionalText(filter[name], name, longestErrorText);
  // It would be found in every error: it comes from a variable that is not set.
  if (filter.error === "")
    throw new InvalidArgumentError("error is empty. Give a part of the error's text, or leave it out.");
}

/** The conditions as parameters of a statement. */
export const filterParams = (filter: MessageFilter): SqlParams => ({
  topic: filter.topic ?? null,
  source: filter.source ?? null,
  error: filter.error ?? null,
  error_group: filter.errorGroup ?? null,
  older_than_ms: filter.olderThanMs ?? null,
  newer_than_ms: filter.newerThanMs ?? null,
});

/** The parameters of statements on dead messages. `at`: the time of an operation's record; null for now. */
export const deadParams = (filter: DeadFilter, at: SqlValue): SqlParams => ({ at, ...filterParams(filter) });
