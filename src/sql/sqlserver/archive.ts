import { bornAt, type QueueNames } from "../names.js";
import { attemptsTable } from "./attempts.js";
import { binary } from "./expressions.js";
import { seekEach } from "./procedures/procedure.js";

/** Dead messages that operators have archived. */
export const archiveTable = (n: QueueNames): string => n.object("Archive");

/** Nothing but an operator's procedure writes it, and nothing deletes its rows. */
export const archiveRows = (n: QueueNames): string => `create table ${archiveTable(n)} (
  seq bigint not null,
  ${
    n.kind === "inbox"
      ? `source nvarchar(255) ${binary} not null,
  message_id nvarchar(255) ${binary} not null,`
      : `id uniqueidentifier not null,
  message_id uniqueidentifier not null,`
  }
  topic nvarchar(255) ${binary} not null,
  partition_key nvarchar(255) ${binary} null,
  payload nvarchar(max) not null,
  correlation_id nvarchar(255) ${binary} null,
  headers nvarchar(max) null,
  enqueued_at datetime2(3) not null,
  attempt int not null,
  last_error nvarchar(max) null,
  error_group varchar(16) ${binary} null,
  -- the failed attempts, as JSON
  attempts nvarchar(max) not null,
  died_at datetime2(3) not null,
  archived_at datetime2(3) not null,
  archived_by nvarchar(255) not null,
  constraint ${n.bare("Archive_PK")} primary key clustered (seq)
)`;

/** Copies the messages of @gone into the archive. */
export const insertArchived = (n: QueueNames): string => {
  const source = n.kind === "inbox" ? "source" : "id";
  return `insert into ${archiveTable(n)} (seq, ${source}, message_id, topic, partition_key, payload, correlation_id, headers,
  enqueued_at, attempt, last_error, error_group, attempts, died_at, archived_at, archived_by)
select m.seq, m.${source}, m.message_id, m.topic, m.partition_key, m.payload, m.correlation_id, m.headers,
  m.${bornAt(n)}, s.attempt, s.last_error, s.error_group, coalesce((
    select a.attempt as attempt, datediff_big(millisecond, '1970-01-01', a.ended_at) as endedAt, lower(a.worker) as worker, a.error as error
    from ${attemptsTable(n)} a with (forceseek)
    where a.seq = g.seq
    order by a.number
    for json path, include_null_values
  ), N'[]'), s.died_at, @now, @who
from @gone g
inner join ${n.message} m with (forceseek) on m.seq = g.seq
inner join ${n.state} s with (forceseek) on s.seq = g.seq
${seekEach};`;
};
