import type { DeadStatements, OperatorStatements } from "../dialect.js";
import { status } from "../dialect.js";
import { type SqlStatement, statement } from "../driver.js";
import { literal } from "../literal.js";
import { keyColumns, type QueueNames, queueId } from "../names.js";
import { insertArchived } from "./archive.js";
import { controlStatements } from "./control-statements.js";
import { epochMs, ms, now } from "./expressions.js";
import { attemptsTable, doneTable } from "./names.js";
import { operationsTable } from "./operations-table.js";
import { leavePartitions } from "./partitions.js";

/** The time to which ages refer: that of an operation's record, else now. */
const at = `coalesce(:at::timestamptz, ${now})`;

/**
 * Dead messages `s` that match. A message's own row is read only where a condition needs it. With `offset 0` it is looked up by its
 * number: a join would read the whole table, Done messages and all.
 */
const dead = (n: QueueNames) => `s.status = ${status.dead}
    and s.died_at <= ${at}
    and (:error_group::text is null or coalesce(s.error_group, '') = :error_group)
    and (:error::text is null or position(:error in s.last_error) > 0)
    and (:older_than_ms::float8 is null or s.died_at <= ${at} - ${ms(":older_than_ms::float8")})
    and (:newer_than_ms::float8 is null or s.died_at >= ${at} - ${ms(":newer_than_ms::float8")})
    and (coalesce(:topic::text, :source::text) is null or exists (
      select from ${n.message} m
      where m.seq = s.seq
        and (:topic::text is null or m.topic = :topic)
        and (:source::text is null or ${n.kind === "inbox" ? "m.source = :source" : "false"})
      offset 0
    ))`;

/** Planned for its own conditions each time. */
const planned = (name: string, text: string): SqlStatement => ({
  ...statement(name, text),
  unprepared: true,
});

export const deadStatements = (n: QueueNames): DeadStatements => ({
  deadGroups: planned(
    "dead groups",
    `select g.error_group, g.count, ${epochMs("g.first_at")} as first_at, ${epochMs("g.last_at")} as last_at, s.last_error,
  ${keyColumns(n)
    .map((column) => `m.${column}`)
    .join(", ")}
from (
  select coalesce(s.error_group, '') as error_group, count(*)::float8 as count, min(s.died_at) as first_at,
    max(s.died_at) as last_at, max(s.seq) as seq
  from ${n.state} s
  where ${dead(n)}
  group by coalesce(s.error_group, '')
  order by count desc, error_group
  limit (select :limit::int)
) g
join ${n.state} s on s.seq = g.seq
join ${n.message} m on m.seq = g.seq
order by g.count desc, g.error_group`,
  ),
  countDead: planned(
    "count dead",
    `select count(*)::float8 as count
from ${n.state} s
where ${dead(n)}`,
  ),
});

const operation = `id, ${epochMs("started_at")} as started_at, who, action, queue, filter, matched, done, last_seq,
  ${epochMs("ended_at")} as ended_at, resumed_by, ${epochMs("resumed_at")} as resumed_at`;

/**
 * Ends the states and the attempts of dead messages, and does what the given CTEs do with `gone`. The message is locked before its
 * state, as everywhere. A dead message has no done row.
 */
const takeDead = (n: QueueNames, ctes: string): string => `with locked as (
  select m.seq
  from ${n.message} m
  where m.seq = any (translate(:items, '[]', '{}')::bigint[])
  order by m.seq
  for update
), gone as (
  delete from ${n.state} s
  where s.seq = any (array(select seq from locked)) and s.status = ${status.dead}
  returning s.seq, s.keyed, s.attempt, s.last_error, s.error_group, s.died_at
), ${ctes}, gone_attempts as (
  delete from ${attemptsTable(n)} a
  where a.seq = any (array(select seq from gone))
)
select seq
from gone
where ${leavePartitions(n, "gone")}`;

const goneMessages = (n: QueueNames) => `gone_messages as (
  delete from ${n.message} m
  where m.seq = any (array(select seq from gone))
)`;

/** The key stays, and is purged with other Done messages. What it contained is in the archive. */
const keepAsDone = (n: QueueNames) => `emptied as (
  update ${n.message} m
  set payload = '', headers = null
  where m.seq = any (array(select seq from gone))
), kept as (
  insert into ${doneTable(n)} (seq, processed_at, attempt, last_error, ended_as)
  select seq, ${now}, attempt, last_error, :ended_as
  from gone
)`;

export function operatorStatements(n: QueueNames): OperatorStatements {
  const table = operationsTable(n.schema);
  const queue = literal(queueId(n));
  return {
    discard: statement("discard", takeDead(n, goneMessages(n))),
    archive: statement(
      "archive",
      takeDead(
        n,
        `archived as (
  ${insertArchived(n, "gone", now)}
), ${n.kind === "inbox" ? keepAsDone(n) : goneMessages(n)}`,
      ),
    ),
    nextDead: planned(
      "next dead",
      `select s.seq
from ${n.state} s
where s.seq > :after_seq::bigint and ${dead(n)}
order by s.seq
limit (select :limit::int)`,
    ),
    // A whole millisecond, so that no message that is dead by now died after it.
    addOperation: statement(
      "add operation",
      `insert into ${table} (id, started_at, who, action, queue, filter)
values (:id::uuid, date_trunc('milliseconds', ${now} + interval '999 microseconds'), :who, :action, ${queue}, :filter)
returning ${operation}`,
    ),
    lockOperation: statement(
      "lock operation",
      `select ${operation}
from ${table}
where id = :id::uuid and queue = ${queue}
for update`,
    ),
    moveOperation: statement(
      "move operation",
      `update ${table}
set matched = :matched::bigint, done = :done::bigint, last_seq = :last_seq::bigint,
  ended_at = case when :ended::boolean then ${now} end,
  resumed_by = coalesce(:who::text, resumed_by),
  resumed_at = case when :who::text is null then resumed_at else ${now} end
where id = :id::uuid
returning ${operation}`,
    ),
    operations: statement(
      "operations",
      `select ${operation}
from ${table}
where queue = ${queue} and (:id::uuid is null or id = :id::uuid)
order by ended_at is null desc, started_at desc, id desc
limit (select :limit::int)`,
    ),
    ...controlStatements(n),
  };
}
