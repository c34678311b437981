import { bornAt, type QueueNames } from "../names.js";
import { now, stepSeqs } from "./expressions.js";
import { archiveTable, attemptsTable } from "./names.js";

/** Dead messages that operators have archived. Nothing but an operator's statement writes it, and nothing deletes its rows. */
export const createArchive = (n: QueueNames): string => `create table ${archiveTable(n)} (
  seq integer primary key,
  ${n.kind === "inbox" ? "source text not null" : "id text not null"},
  message_id text not null,
  topic text not null,
  partition_key text,
  payload text not null,
  correlation_id text,
  headers text,
  enqueued_at integer not null,
  attempt integer not null,
  last_error text,
  error_group text,
  -- the failed attempts, as JSON
  attempts text not null,
  died_at integer not null,
  archived_at integer not null,
  archived_by text not null
) strict`;

/** A step: copies the messages that the step before returned into the archive. */
export const insertArchived = (n: QueueNames): string => {
  const source = n.kind === "inbox" ? "source" : "id";
  return `insert into ${archiveTable(n)} (seq, ${source}, message_id, topic, partition_key, payload, correlation_id, headers,
  enqueued_at, attempt, last_error, error_group, attempts, died_at, archived_at, archived_by)
select m.seq, m.${source}, m.message_id, m.topic, m.partition_key, m.payload, m.correlation_id, m.headers,
  m.${bornAt(n)}, s.attempt, s.last_error, s.error_group, (
    select json_group_array(json_object('attempt', a.attempt, 'endedAt', a.ended_at, 'worker', a.worker, 'error', a.error))
    from (select * from ${attemptsTable(n)} where seq = m.seq order by number) a
  ), s.died_at, ${now}, :who
from ${n.message} m
join ${n.state} s on s.seq = m.seq
where m.seq in ${stepSeqs}`;
};
