import { optionalAge, refuseUnknown } from "../queue/arguments.js";
import type { DeadFilter } from "../queue/dead-letters.js";
import type { SqlParams, SqlValue } from "./driver.js";

const known = ["topic", "source", "error", "errorGroup", "olderThanMs", "newerThanMs"];

/** The conditions of a filter, checked, without what is absent: what an operation's record keeps. */
export function deadConditions(filter: DeadFilter): Readonly<Record<string, unknown>> {
  const { signal: _, ...conditions } = filter;
  refuseUnknown(conditions, known, "filter");
  optionalAge(filter.olderThanMs, "olderThanMs");
  optionalAge(filter.newerThanMs, "newerThanMs");
  return Object.fromEntries(Object.entries(conditions).filter(([, value]) => value !== undefined));
}

/** The parameters of statements on dead messages. `at`: the time of an operation's record; null for now. */
export function deadParams(filter: DeadFilter, at: SqlValue): SqlParams {
  return {
    at,
    topic: filter.topic ?? null,
    source: filter.source ?? null,
    error: filter.error ?? null,
    error_group: filter.errorGroup ?? null,
    older_than_ms: filter.olderThanMs ?? null,
    newer_than_ms: filter.newerThanMs ?? null,
  };
}
