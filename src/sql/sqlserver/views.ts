import { status } from "../dialect.js";
import type { QueueNames } from "../names.js";
import { sentQuery } from "../sent-view.js";
import { type ShownStatusParts, shownState, shownStatus } from "../shown-status.js";
import { controlsTable } from "./controls.js";
import { inLines } from "./in-lines.js";
import { appliesTo } from "./procedures/controls.js";

const shown = (n: QueueNames): ShownStatusParts => ({
  isDone: `s.status = ${status.done}`,
  isPaused: `exists (select 1 from ${controlsTable(n)} c where c.paused = 1 and ${appliesTo(n.kind === "inbox")})`,
  endedAs: "s.ended_as",
});

/** Columns under the specification's names. */
const named = (alias: "m" | "s", columns: Readonly<Record<string, string>>) =>
  inLines(Object.entries(columns).map(([column, name]) => `${alias}.${column} as ${name}`));

const view = (n: QueueNames, columns: readonly string[]) => `create or alter view ${n.view} as
select
  ${columns.join(",\n  ")}
from ${n.message} m
inner join ${n.state} s on s.seq = m.seq`;

const leaseColumns = { locked_until: "LockedUntil", owner: "OwnerToken" };
const retryColumns = { last_error: "LastError", visible_at: "NextAttemptAt" };
const lastAttemptAt = "coalesce(s.processed_at, s.last_attempt_at) as LastAttemptAt";

const inboxView = (n: QueueNames) =>
  view(n, [
    named("m", {
      source: "Source",
      message_id: "MessageId",
      topic: "Topic",
      payload: "Payload",
      hash: "Hash",
    }),
    named("m", { first_seen_at: "FirstSeenUtc", last_seen_at: "LastSeenUtc" }),
    `${shownStatus(n, shown(n))} as Status`,
    `${shownState(n, shown(n))} as State`,
    named("s", { ...leaseColumns, attempt: "Attempt", ...retryColumns }),
    "m.due_at as DueTimeUtc, s.expires_at as ExpiresAt, m.correlation_id as CorrelationId, s.processed_at as ProcessedAt",
    `m.deliveries as Deliveries, m.partition_key as PartitionKey, ${lastAttemptAt}`,
  ]);

const outboxView = (n: QueueNames) =>
  view(n, [
    named("m", { id: "Id", topic: "Topic", payload: "Payload", created_at: "CreatedAt" }),
    `${shownStatus(n, shown(n))} as Status`,
    `${shownState(n, shown(n))} as State`,
    named("s", leaseColumns),
    `cast(case when s.status = ${status.done} then 1 else 0 end as bit) as IsProcessed`,
    named("s", {
      processed_at: "ProcessedAt",
      processed_by: "ProcessedBy",
      attempt: "RetryCount",
      ...retryColumns,
    }),
    "m.message_id as MessageId, m.correlation_id as CorrelationId, m.due_at as DueTimeUtc, s.expires_at as ExpiresAt",
    `m.partition_key as PartitionKey, ${lastAttemptAt}, m.headers as Headers, m.natural_key as NaturalKey`,
  ]);

export const messagesView = (n: QueueNames): string => (n.kind === "inbox" ? inboxView(n) : outboxView(n));

export function sentView(n: QueueNames): readonly string[] {
  const query = sentQuery({
    from: n.view,
    column: (name) => name,
    destination: (topic) => `left(${topic}, charindex(N'/', ${topic}) - 1)`,
    endpoint: (topic) => `substring(${topic}, charindex(N'/', ${topic}) + 1, 255)`,
    header: (headers, name) => `json_value(${headers}, '$."${name}"')`,
    now: "sysutcdatetime()",
  });
  return [`create or alter view ${n.object("Sent")} as\n${query}`];
}
