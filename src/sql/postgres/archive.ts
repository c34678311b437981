import type { QueueNames } from "../names.js";
import { bornAt } from "../names.js";
import { epochMs } from "./expressions.js";
import { archiveTable, attemptsTable } from "./names.js";

/** Dead messages that operators have archived. Nothing but an operator's statement writes it, and nothing deletes its rows. */
export const archiveRows = (n: QueueNames): string => `create table ${archiveTable(n)} (
  seq bigint primary key,
  ${
    n.kind === "inbox"
      ? `source varchar(255) collate "C" not null,
  message_id varchar(255) collate "C" not null,`
      : `id uuid not null,
  message_id uuid not null,`
  }
  topic varchar(255) collate "C" not null,
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

/** Inserts the rows of a CTE with what the state had, `gone`, into the archive. */
export const insertArchived = (n: QueueNames, gone: string, now: string): string => {
  const key = n.kind === "inbox" ? "source, message_id" : "id, message_id";
  const ofMessage = key.replaceAll(/\b(?=\w)/g, "m.");
  return `insert into ${archiveTable(n)} (seq, ${key}, topic, partition_key, payload, correlation_id, headers, enqueued_at,
    attempt, last_error, error_group, attempts, died_at, archived_at, archived_by)
  select m.seq, ${ofMessage}, m.topic, m.partition_key, m.payload, m.correlation_id, m.headers, m.${bornAt(n)},
    g.attempt, g.last_error, g.error_group, coalesce((
      select json_agg(json_build_object(
        'attempt', a.attempt, 'endedAt', round(${epochMs("a.ended_at")}), 'worker', a.worker, 'error', a.error) order by a.number)::text
      from ${attemptsTable(n)} a
      where a.seq = g.seq
    ), '[]'), g.died_at, ${now}, :who
  from ${gone} g
  join ${n.message} m on m.seq = g.seq`;
};
