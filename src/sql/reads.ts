import { longestErrorText } from "../base/redaction.js";
import { InvalidArgumentError, RowLockedError } from "../errors.js";
import {
  checkCall,
  optionalAge,
  optionalCount,
  optionalText,
  plainCall,
  refuseUnknown,
  requireBatchSize,
} from "../queue/arguments.js";
import { type Phase, phases, type Resolution, resolutions } from "../queue/message.js";
import type { DeadFilter, FailedAttempt } from "../queue/operators.js";
import type {
  AnyKey,
  AnyMessage,
  CallOptions,
  ListFilter,
  MessageFilter,
  Page,
  QueueStats,
} from "../queue/work-store.js";
import { isTrue, type SqlParams, type SqlRow, type SqlValue } from "./driver.js";
import type { QueueParts } from "./store.js";
import { defaults } from "./store-options.js";

const conditionNames: readonly string[] = [
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

function checkConditions(filter: MessageFilter): void {
  optionalAge(filter.olderThanMs, "olderThanMs");
  optionalAge(filter.newerThanMs, "newerThanMs");
  for (const name of ["topic", "source", "error", "errorGroup"] as const)
    optionalText(filter[name], name, longestErrorText);
  // It would be found in every error: it comes from a variable that is not set.
  if (filter.error === "")
    throw new InvalidArgumentError("error is empty. Give a part of the error's text, or leave it out.");
}

/** The conditions as parameters of a statement. */
const filterParams = (filter: MessageFilter): SqlParams => ({
  topic: filter.topic ?? null,
  source: filter.source ?? null,
  error: filter.error ?? null,
  error_group: filter.errorGroup ?? null,
  older_than_ms: filter.olderThanMs ?? null,
  newer_than_ms: filter.newerThanMs ?? null,
});

/** The parameters of statements on dead messages. `at`: the time of an operation's record; null for now. */
export const deadParams = (filter: DeadFilter, at: SqlValue): SqlParams => ({ at, ...filterParams(filter) });

const sayLocked =
  ({ dialect }: Pick<QueueParts["db"], "dialect">) =>
  (error: unknown): never => {
    if (!dialect.isLockTimeout?.(error)) throw error;
    throw new RowLockedError(
      "The read waited for an open transaction. With READ_COMMITTED_SNAPSHOT on, reads wait for nobody.",
      { cause: error },
    );
  };

export async function get(
  { db, shape, statements, runner }: QueueParts,
  key: AnyKey,
  call: CallOptions = {},
): Promise<AnyMessage | null> {
  checkCall(call, plainCall, "get");
  const [row] = await runner
    .execute(statements.get, shape.keyParams(shape.key(key)), call)
    .catch(sayLocked(db));
  return row === undefined ? null : shape.toMessage(row, db.dialect);
}

export async function attempts(
  { db, shape, statements, runner }: QueueParts,
  key: AnyKey,
  call: CallOptions = {},
): Promise<readonly FailedAttempt[]> {
  checkCall(call, plainCall, "attempts");
  const rows = await runner
    .execute(statements.attempts, shape.keyParams(shape.key(key)), call)
    .catch(sayLocked(db));
  return rows.map((row) => ({
    attempt: Number(row.attempt),
    endedAt: db.dialect.fromTime(row.ended_at),
    worker: (row.worker as string | null)?.toLowerCase() ?? null,
    error: row.error as string | null,
  }));
}

const listFields: readonly string[] = [...conditionNames, "state", "resolution", "limit", "after", "signal"];

export async function list(parts: QueueParts, filter: ListFilter<string> = {}): Promise<Page<AnyMessage>> {
  refuseUnknown(filter, listFields, "list");
  const limit = filter.limit ?? defaults.listLimit;
  requireBatchSize(limit, "limit");
  const { db, shape, statements, runner } = parts;
  const params = { ...listParams(parts, filter), limit };
  const rows = await runner.execute(statements.list, params, filter).catch(sayLocked(db));
  const messages = rows.map((row) => shape.toMessage(row, db.dialect));
  return { messages, cursor: messages.length < limit ? null : messages.at(-1)!.seq };
}

function listParams({ shape }: QueueParts, filter: ListFilter<string>): SqlParams {
  optionalCount(filter.after, "after", 0);
  checkConditions(filter);
  if (filter.state !== undefined && !shape.states.includes(filter.state))
    throw new InvalidArgumentError(`state must be one of ${shape.states.join(", ")}.`);
  if (filter.resolution !== undefined && !resolutions.includes(filter.resolution))
    throw new InvalidArgumentError(`resolution must be one of ${resolutions.join(", ")}.`);
  const { statuses: codes, leased } =
    filter.state === undefined ? { statuses: [], leased: null } : shape.rowsIn(filter.state);
  const [status = null, second = status, third = status] = codes;
  return {
    status,
    status_2: second,
    status_3: third,
    leased,
    resolution: filter.resolution ?? null,
    ...filterParams(filter),
    after_seq: filter.after ?? 0,
  };
}

export async function stats(
  { shape, statements, runner }: QueueParts,
  call: CallOptions = {},
): Promise<QueueStats<string>> {
  checkCall(call, plainCall, "stats");
  const rows = await runner.execute(statements.stats, {}, call);
  const counts = Object.fromEntries(shape.states.map((state) => [state, 0]));
  const inPhase = Object.fromEntries(phases.map((phase) => [phase, 0])) as Record<Phase, number>;
  let due = 0;
  let expired = 0;
  let oldestDueAgeMs: number | null = null;
  for (const row of rows) {
    const state = shape.stateOf({ status: Number(row.status), leased: isTrue(row.leased) });
    counts[state]! += Number(row.count);
    inPhase[phaseOfRow(state, row)] += Number(row.count);
    expired += Number(row.expired);
    if (isTrue(row.paused)) continue;
    due += Number(row.due);
    const age = ageOf(row.oldest_due_ms);
    if (age !== null) oldestDueAgeMs = Math.max(oldestDueAgeMs ?? 0, age);
  }
  return { counts, phases: inPhase, due, oldestDueAgeMs, expired };
}

export async function oldestDueAgeMs(
  { statements, runner }: QueueParts,
  call: CallOptions = {},
): Promise<number | null> {
  checkCall(call, plainCall, "oldestDueAgeMs");
  const [row] = await runner.execute(statements.oldestDue, {}, call);
  return ageOf(row?.oldest_due_ms);
}

const phaseOfEnded: Readonly<Record<string, Phase>> = {
  Done: "done",
  Dead: "dead",
  Failed: "dead",
  Seen: "seen",
};

function phaseOfRow(state: string, { leased, paused, retried, resolution }: SqlRow): Phase {
  const end = (resolution as Resolution | null | undefined) ?? phaseOfEnded[state];
  if (end !== undefined) return end;
  if (isTrue(leased)) return "running";
  if (isTrue(paused)) return "paused";
  return isTrue(retried) ? "retrying" : "waiting";
}

const ageOf = (value: unknown): number | null =>
  value === null || value === undefined ? null : Math.round(Number(value));
