import { literal, type QueueNames } from "../names.js";
import { type ShownStatusParts, sentQuery, shownState, shownStatus } from "../views.js";
import { holdsMessage } from "./controls.js";
import { createView, doneTable } from "./expressions.js";

/** Every message with its state row or, when it is done, with its done row. */
export const messages = (n: QueueNames): string => `from ${n.message} m
left join ${n.state} s on s.seq = m.seq
left join ${doneTable(n)} d on d.seq = m.seq`;

const shown = (n: QueueNames): ShownStatusParts => ({
  isDone: "s.seq is null",
  isPaused: holdsMessage(n),
  resolution: "d.resolution",
});

const inboxQuery = (n: QueueNames) => `select
  m.source,
  m.message_id,
  m.topic,
  m.payload,
  m.hash,
  m.first_seen_at as first_seen_utc,
  m.last_seen_at as last_seen_utc,
  ${shownStatus(n, shown(n))} as status,
  ${shownState(n, shown(n))} as state,
  s.locked_until,
  s.owner as owner_token,
  coalesce(s.attempt, d.attempt) as attempt,
  coalesce(s.last_error, d.last_error) as last_error,
  coalesce(s.reclaimable_at, s.visible_at) as next_attempt_at,
  m.due_at as due_time_utc,
  case when s.seq is null then m.expires_at else s.expires_at end as expires_at,
  m.correlation_id,
  d.processed_at,
  m.deliveries,
  m.partition_key,
  coalesce(d.processed_at, s.last_attempt_at) as last_attempt_at
${messages(n)}`;

const outboxQuery = (n: QueueNames) => `select
  m.id,
  m.topic,
  m.payload,
  m.created_at,
  ${shownStatus(n, shown(n))} as status,
  ${shownState(n, shown(n))} as state,
  s.locked_until,
  s.owner as owner_token,
  s.seq is null as is_processed,
  d.processed_at,
  d.processed_by,
  coalesce(s.attempt, d.attempt) as retry_count,
  coalesce(s.last_error, d.last_error) as last_error,
  coalesce(s.reclaimable_at, s.visible_at) as next_attempt_at,
  m.message_id,
  m.correlation_id,
  m.due_at as due_time_utc,
  case when s.seq is null then m.expires_at else s.expires_at end as expires_at,
  m.partition_key,
  coalesce(d.processed_at, s.last_attempt_at) as last_attempt_at,
  m.headers,
  m.natural_key
${messages(n)}`;

const sent = (n: QueueNames) => n.object("_sent");

/** The specification's names in snake case: other names would have to be quoted in every query. See docs/decisions/0036. */
export const messagesView = (n: QueueNames): string =>
  createView(n.view, n.kind === "inbox" ? inboxQuery(n) : outboxQuery(n), sent(n));

const snakeCase = (name: string) => name.replaceAll(/(?<=[a-z])(?=[A-Z])/g, "_").toLowerCase();

export const sentView = (n: QueueNames): readonly string[] => [
  createView(
    sent(n),
    sentQuery({
      from: n.view,
      column: snakeCase,
      destination: (topic) => `split_part(${topic}, '/', 1)`,
      endpoint: (topic) => `substr(${topic}, strpos(${topic}, '/') + 1)`,
      header: (headers, name) => `${headers}::json ->> ${literal(name)}`,
      now: "now()",
    }),
  ),
];
