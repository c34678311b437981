import { reasons } from "../dead-letters.js";
import { createdColumn, literal, type QueueNames } from "../names.js";
import { keptAttempts } from "../store-options.js";
import { archiveTable, attemptsTable, moreAttempts, now, operationsTable, stepSeqs } from "./expressions.js";

/** The table, and the trigger that keeps it short. */
export const createAttempts = (n: QueueNames): readonly string[] => [
  `create table ${attemptsTable(n)} (
  number integer primary key,
  seq integer not null,
  attempt integer not null,
  ended_at integer not null,
  worker text,
  error text
) strict`,
  `create index ${n.bare("AttemptsOfMessage")} on ${attemptsTable(n)} (seq)`,
  `create trigger ${n.object("ForgetAttempts")}
after insert on ${attemptsTable(n)}
begin
  delete from ${attemptsTable(n)}
  where seq = new.seq and number <= (
    select number from ${attemptsTable(n)} where seq = new.seq order by number desc limit 1 offset ${keptAttempts}
  );
end`,
];

/** A step: the attempts whose leases were lost, of the messages that the last step with rows returned. */
export const recordLost = (
  n: QueueNames,
): string => `insert into ${attemptsTable(n)} (seq, attempt, ended_at, worker, error)
select s.seq, ${moreAttempts("1")}, s.locked_until, s.owner, ${literal(reasons.leaseExpired)}
from ${n.state} s
where s.seq in ${stepSeqs} and s.locked_until is not null`;

/**
 * A step: records the attempts of the messages in `:items` that the step before has changed. In this order, or SQLite reads
 * all of `:items` for each message.
 */
export const recordAbandoned = (
  n: QueueNames,
): string => `insert into ${attemptsTable(n)} (seq, attempt, ended_at, worker, error)
select s.seq, s.attempt, ${now}, :owner, json_extract(i.value, '$.error')
from json_each(:items) i
cross join ${n.state} s on s.seq = json_extract(i.value, '$.seq')
where json_extract(i.value, '$.attempts') is null and s.seq in ${stepSeqs}
order by s.seq`;

/** A step: the same for messages that failed with one error. */
export const recordFailed = (
  n: QueueNames,
): string => `insert into ${attemptsTable(n)} (seq, attempt, ended_at, worker, error)
select s.seq, s.attempt, ${now}, :owner, :error
from ${n.state} s
where s.seq in ${stepSeqs}`;

/** Dead messages that operators have archived. Nothing but an operator's statement writes it, and nothing deletes its rows. */
export const createArchive = (n: QueueNames): string => `create table ${archiveTable(n)} (
  seq integer primary key,
  ${n.kind === "inbox" ? "source text not null" : "id text not null"},
  message_id text not null,
  topic text not null,
  type text,
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
  return `insert into ${archiveTable(n)} (seq, ${source}, message_id, topic, type, partition_key, payload, correlation_id, headers,
  enqueued_at, attempt, last_error, error_group, attempts, died_at, archived_at, archived_by)
select m.seq, m.${source}, m.message_id, m.topic, m.type, m.partition_key, m.payload, m.correlation_id, m.headers,
  m.${createdColumn(n)}, s.attempt, s.last_error, s.error_group, (
    select json_group_array(json_object('attempt', a.attempt, 'endedAt', a.ended_at, 'worker', a.worker, 'error', a.error))
    from (select * from ${attemptsTable(n)} where seq = m.seq order by number) a
  ), s.died_at, ${now}, :who
from ${n.message} m
join ${n.state} s on s.seq = m.seq
where m.seq in ${stepSeqs}`;
};

/** What operators have done: to dead messages, and how far they came; pauses and limits. */
export const createOperations = (schema: string): string =>
  `create table if not exists ${operationsTable(schema)} (
  id text primary key,
  started_at integer not null,
  who text not null,
  action text not null,
  queue text not null,
  filter text not null,
  matched integer not null default 0,
  done integer not null default 0,
  last_seq integer not null default 0,
  ended_at integer,
  -- who went on with it last, after an interruption
  resumed_by text,
  resumed_at integer
) strict`;
