import { status } from "../dialect.js";
import type { QueueNames } from "../names.js";
import { sentQuery } from "../sent-view.js";
import { type ShownStatusParts, shownState, shownStatus } from "../shown-status.js";
import { holdsMessage } from "./controls.js";
import { messages, stateColumns, visibleAt } from "./expressions.js";

const instant = (column: string) => `strftime('%Y-%m-%dT%H:%M:%fZ', ${column} / 1000.0, 'unixepoch')`;

const shown = (n: QueueNames): ShownStatusParts => ({
  isDone: `s.status = ${status.done}`,
  isPaused: holdsMessage(n),
  endedAs: "s.ended_as",
});

const inboxView = (n: QueueNames) => `create view ${n.view} as
select
  m.source as Source,
  m.message_id as MessageId,
  m.topic as Topic,
  m.payload as Payload,
  m.hash as Hash,
  ${instant("m.first_seen_at")} as FirstSeenUtc,
  ${instant("m.last_seen_at")} as LastSeenUtc,
  ${shownStatus(n, shown(n))} as Status,
  ${shownState(n, shown(n))} as State,
  ${instant("s.locked_until")} as LockedUntil,
  s.owner as OwnerToken,
  ${stateColumns.attempt} as Attempt,
  s.last_error as LastError,
  ${instant(visibleAt(n))} as NextAttemptAt,
  ${instant("m.due_at")} as DueTimeUtc,
  ${instant("s.expires_at")} as ExpiresAt,
  m.correlation_id as CorrelationId,
  ${instant("s.processed_at")} as ProcessedAt,
  m.deliveries as Deliveries,
  m.partition_key as PartitionKey,
  ${instant("coalesce(s.processed_at, s.last_attempt_at)")} as LastAttemptAt
${messages(n)}`;

const outboxView = (n: QueueNames) => `create view ${n.view} as
select
  m.id as Id,
  m.topic as Topic,
  m.payload as Payload,
  ${instant("m.created_at")} as CreatedAt,
  ${shownStatus(n, shown(n))} as Status,
  ${shownState(n, shown(n))} as State,
  ${instant("s.locked_until")} as LockedUntil,
  s.owner as OwnerToken,
  ${stateColumns.status} = ${status.done} as IsProcessed,
  ${instant("s.processed_at")} as ProcessedAt,
  s.processed_by as ProcessedBy,
  ${stateColumns.attempt} as RetryCount,
  s.last_error as LastError,
  ${instant(visibleAt(n))} as NextAttemptAt,
  m.message_id as MessageId,
  m.correlation_id as CorrelationId,
  ${instant("m.due_at")} as DueTimeUtc,
  ${instant("s.expires_at")} as ExpiresAt,
  m.partition_key as PartitionKey,
  ${instant("coalesce(s.processed_at, s.last_attempt_at)")} as LastAttemptAt,
  m.headers as Headers,
  m.natural_key as NaturalKey
${messages(n)}`;

/** The specification's names: SQLite keeps their case and compares them without it, so they need no quotes. */
export const messagesView = (n: QueueNames): string => (n.kind === "inbox" ? inboxView(n) : outboxView(n));

export const sentView = (n: QueueNames): readonly string[] => [
  `drop view if exists ${n.object("Sent")}`,
  `create view ${n.object("Sent")} as
${sentQuery({
  from: n.view,
  column: (name) => name,
  destination: (topic) => `substr(${topic}, 1, instr(${topic}, '/') - 1)`,
  endpoint: (topic) => `substr(${topic}, instr(${topic}, '/') + 1)`,
  header: (headers, name) => `json_extract(${headers}, '$."${name}"')`,
  now: "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')",
})}`,
];
