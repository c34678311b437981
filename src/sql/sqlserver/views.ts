import { status } from "../dialect.js";
import type { QueueNames } from "../names.js";
import { sentQuery } from "../sent-view.js";
import { type ShownStatusParts, shownState, shownStatus } from "../shown-status.js";
import { controlsTable } from "./controls.js";
import { appliesTo } from "./procedures/controls.js";

const shown = (n: QueueNames): ShownStatusParts => ({
  isDone: `s.status = ${status.done}`,
  isPaused: `exists (select 1 from ${controlsTable(n)} c where c.paused = 1 and ${appliesTo(n.kind === "inbox")})`,
  endedAs: "s.ended_as",
});

const inboxView = (n: QueueNames) => `create or alter view ${n.view} as
select
  m.source as Source, m.message_id as MessageId, m.topic as Topic, m.payload as Payload, m.hash as Hash,
  m.first_seen_at as FirstSeenUtc, m.last_seen_at as LastSeenUtc,
  ${shownStatus(n, shown(n))} as Status,
  ${shownState(n, shown(n))} as State,
  s.locked_until as LockedUntil, s.owner as OwnerToken, s.attempt as Attempt, s.last_error as LastError,
  s.visible_at as NextAttemptAt,
  m.due_at as DueTimeUtc, s.expires_at as ExpiresAt, m.correlation_id as CorrelationId, s.processed_at as ProcessedAt,
  m.deliveries as Deliveries, m.partition_key as PartitionKey, coalesce(s.processed_at, s.last_attempt_at) as LastAttemptAt
from ${n.message} m
inner join ${n.state} s on s.seq = m.seq`;

const outboxView = (n: QueueNames) => `create or alter view ${n.view} as
select
  m.id as Id, m.topic as Topic, m.payload as Payload, m.created_at as CreatedAt,
  ${shownStatus(n, shown(n))} as Status,
  ${shownState(n, shown(n))} as State,
  s.locked_until as LockedUntil, s.owner as OwnerToken,
  cast(case when s.status = ${status.done} then 1 else 0 end as bit) as IsProcessed,
  s.processed_at as ProcessedAt, s.processed_by as ProcessedBy, s.attempt as RetryCount, s.last_error as LastError,
  s.visible_at as NextAttemptAt,
  m.message_id as MessageId, m.correlation_id as CorrelationId, m.due_at as DueTimeUtc, s.expires_at as ExpiresAt,
  m.partition_key as PartitionKey, coalesce(s.processed_at, s.last_attempt_at) as LastAttemptAt, m.headers as Headers, m.natural_key as NaturalKey
from ${n.message} m
inner join ${n.state} s on s.seq = m.seq`;

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
