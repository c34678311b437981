import { literal, type QueueNames, queueId } from "../names.js";
import { keptAttempts } from "../store-options.js";
import { archiveTable, attemptsTable, createFunction, keyDefinition, ms, now, quote } from "./expressions.js";

export const attemptRows = (n: QueueNames): string => `create table ${attemptsTable(n)} (
  seq bigint not null,
  number bigint generated always as identity,
  attempt integer not null,
  ended_at timestamptz not null,
  worker uuid,
  error text,
  primary key (seq, number)
)`;

/**
 * Called inside a condition for its side effect. Always false, so that the condition's value is fixed. Strict: it does not
 * run for null, so a claim that finds no lost lease writes nothing.
 */
export const recordAttemptsFunction = (n: QueueNames): string =>
  createFunction(
    n.object("_record_attempts"),
    "p_attempts json",
    "returns boolean",
    `declare
  v_seqs bigint[];
begin
  with added as (
    insert into ${attemptsTable(n)} (seq, attempt, ended_at, worker, error)
    select i.seq, i.attempt, i.ended_at, i.worker, i.error
    from json_to_recordset(p_attempts) as i(seq bigint, attempt integer, ended_at timestamptz, worker uuid, error text)
    returning seq
  )
  select array_agg(added.seq) into v_seqs from added;

  delete from ${attemptsTable(n)} a
  where a.seq = any (v_seqs) and a.number <= (
      select b.number from ${attemptsTable(n)} b where b.seq = a.seq order by b.number desc offset ${keptAttempts} limit 1
    );
  return false;
end`,
    "strict\nset enable_seqscan = off",
  );

/** A condition that is always true. It records the rows of a query: seq, attempt, ended_at, worker, error. */
export const recordAttempts = (n: QueueNames, query: string): string =>
  `(select ${n.object("_record_attempts")}(json_agg(failed)) from (${query}) failed) is not true`;

/** Dead messages that operators have archived. Nothing but an operator's statement writes it, and nothing deletes its rows. */
export const archiveRows = (n: QueueNames): string => `create table ${archiveTable(n)} (
  seq bigint primary key,
  ${keyDefinition(n)},
  topic varchar(255) collate "C" not null,
  type varchar(255) collate "C",
  partition_key varchar(255) collate "C",
  payload text not null,
  correlation_id varchar(255),
  headers text,
  enqueued_at timestamptz not null,
  attempt integer not null,
  last_error text,
  error_group varchar(16) collate "C",
  -- the failed attempts, as JSON
  attempts text not null,
  died_at timestamptz not null,
  archived_at timestamptz not null,
  archived_by varchar(255) not null
)`;

export const operationsTable = (schema: string) => `${quote(schema)}.${quote("oncebox_operations")}`;

/** What operators have done: to dead messages, and how far they came; pauses and limits. */
export const createOperations = (schema: string): string =>
  `create table if not exists ${operationsTable(schema)} (
  id uuid primary key,
  started_at timestamptz not null,
  who varchar(255) not null,
  action varchar(20) not null,
  queue varchar(100) not null,
  filter text not null,
  matched bigint not null default 0,
  done bigint not null default 0,
  last_seq bigint not null default 0,
  ended_at timestamptz,
  -- who went on with it last, after an interruption
  resumed_by varchar(255),
  resumed_at timestamptz
)`;

/** Of ended operations: one that goes on is needed to resume it. */
export const purgeOperations = (n: QueueNames): string => `with gone as (
  delete from ${operationsTable(n.schema)}
  where id = any (array(
      select id
      from ${operationsTable(n.schema)}
      where queue = ${literal(queueId(n))} and ended_at < ${now} - ${ms(":retention_ms::float8")}
      limit (select :limit::int)
    ))
  returning id
)
select count(*)::int as deleted
from gone`;
