import {
  type OperatorDialect,
  type OperatorReadStatements,
  type OperatorStatements,
  status,
} from "../dialect.js";
import { createdColumn, literal, type QueueNames, queueId } from "../names.js";
import { maxSources } from "../store-options.js";
import { appliesTo, holdsMessage } from "./controls.js";
import {
  archiveTable,
  attemptsTable,
  controlsTable,
  doneTable,
  epochMs,
  messageKey,
  messages,
  ms,
  named,
  now,
} from "./expressions.js";
import { operationsTable } from "./history.js";
import { seqs } from "./leases.js";
import { leavePartitions, partitionQueue } from "./partitions.js";
import { readUnhandled } from "./unhandled.js";

export const postgresOperators: OperatorDialect = { changes, reads };

function changes(n: QueueNames): OperatorStatements {
  const table = operationsTable(n.schema);
  const queue = literal(queueId(n));
  return named(
    {
      discard: takeDead(n, goneMessages(n)),
      archive: takeDead(
        n,
        `archived as (
  ${insertArchived(n)}
), ${n.kind === "inbox" ? keepAsDone(n) : goneMessages(n)}`,
      ),
      nextDead: `select s.seq
from ${n.state} s
where s.seq > :after_seq::bigint and ${dead(n)}
order by s.seq
limit (select :limit::int)`,
      // A whole millisecond, so that no message that is dead by now died after it.
      addOperation: `insert into ${table} (id, started_at, who, action, queue, filter)
values (:id::uuid, date_trunc('milliseconds', ${now} + interval '999 microseconds'), :who, :action, ${queue}, :filter)
returning ${operation}`,
      lockOperation: `select ${operation}
from ${table}
where id = :id::uuid and queue = ${queue}
for update`,
      moveOperation: `update ${table}
set matched = :matched::bigint, done = :done::bigint, last_seq = :last_seq::bigint,
  ended_at = case when :ended::boolean then ${now} end,
  resumed_by = coalesce(:who::text, resumed_by),
  resumed_at = case when :who::text is null then resumed_at else ${now} end
where id = :id::uuid
returning ${operation}`,
      operations: `select ${operation}
from ${table}
where queue = ${queue} and (:id::uuid is null or id = :id::uuid)
order by ended_at is null desc, started_at desc, id desc
limit (select :limit::int)`,
      putControl: `insert into ${controlsTable(n)} as c (scope, name, paused, per_second, refilled_at, who, changed_at)
values (:scope, :name, coalesce(:paused::boolean, false), :per_second::float8, ${now}, :who, ${now})
on conflict (scope, name) do update
set paused = coalesce(:paused::boolean, c.paused),
  per_second = coalesce(excluded.per_second, c.per_second),
  who = excluded.who,
  changed_at = excluded.changed_at
returning ${control(n)}`,
      endControl: `with deleted as (
  delete from ${controlsTable(n)} c
  where ${endedPart} and not ${otherPart}
  returning c.scope, c.name
), changed as (
  update ${controlsTable(n)} c
  set paused = not :paused::boolean, per_second = case when :paused::boolean then c.per_second end, who = :who, changed_at = ${now}
  where ${endedPart} and ${otherPart}
  returning c.scope, c.name, c.paused, c.per_second, c.who, c.changed_at
)
select ${control(n)}
from (
  select scope, name, false as paused, null::float8 as per_second, :who as who, ${now} as changed_at from deleted
  union all
  select * from changed
) c`,
    },
    ["nextDead"],
  );
}

/**
 * Ends the states and the attempts of dead messages, and does what the given CTEs do with `gone`. The message is locked before its
 * state, as everywhere. A dead message has no done row.
 */
const takeDead = (n: QueueNames, ctes: string): string => `with locked as (
  select m.seq
  from ${n.message} m
  where m.seq = ${seqs}
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
  insert into ${doneTable(n)} (seq, processed_at, attempt, last_error, resolution)
  select seq, ${now}, attempt, last_error, :resolution
  from gone
)`;

const insertArchived = (n: QueueNames): string => {
  const key = n.kind === "inbox" ? "source" : "id";
  return `insert into ${archiveTable(n)} (seq, ${key}, message_id, topic, type, partition_key, payload, correlation_id, headers, enqueued_at,
    attempt, last_error, error_group, attempts, died_at, archived_at, archived_by)
  select m.seq, m.${key}, m.message_id, m.topic, m.type, m.partition_key, m.payload, m.correlation_id, m.headers, m.${createdColumn(n)},
    g.attempt, g.last_error, g.error_group, coalesce((
      select json_agg(json_build_object(
        'attempt', a.attempt, 'endedAt', round(${epochMs("a.ended_at")}), 'worker', a.worker, 'error', a.error) order by a.number)::text
      from ${attemptsTable(n)} a
      where a.seq = g.seq
    ), '[]'), g.died_at, ${now}, :who
  from gone g
  join ${n.message} m on m.seq = g.seq`;
};

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

const operation = `id, ${epochMs("started_at")} as started_at, who, action, queue, filter, matched, done, last_seq,
  ${epochMs("ended_at")} as ended_at, resumed_by, ${epochMs("resumed_at")} as resumed_at`;

/** The part of a control that ends, the pause or the limit; and the part that stays. */
const endedPart = `c.scope = :scope and c.name = :name
    and case when :paused::boolean then c.paused else c.per_second is not null end`;
const otherPart = "case when :paused::boolean then c.per_second is not null else c.paused end";

function reads(n: QueueNames): OperatorReadStatements {
  return named(
    {
      deadGroups: `select g.error_group, g.count, ${epochMs("g.first_at")} as first_at, ${epochMs("g.last_at")} as last_at, s.last_error,
  ${messageKey(n)}
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
      countDead: `select count(*)::float8 as count
from ${n.state} s
where ${dead(n)}`,
      controls: `select ${control(n)}
from ${controlsTable(n)} c
order by c.changed_at, c.scope, c.name`,
      unhandled: readUnhandled(n),
      unfinished: `select count(*)::float8 as count, ${epochMs(now)} as now
from (
  select from ${n.state} s
  where s.status in (${status.ready}, ${status.processing}, ${status.blocked})
  limit (select :limit::int)
) u`,
      enqueuedBefore: byBucket(
        `select m.seq, m.${createdColumn(n)} as happened_at from ${n.message} m where m.seq < :before_seq::bigint order by m.seq desc`,
      ),
      doneBefore: byBucket(
        `select d.seq, d.processed_at as happened_at from ${doneTable(n)} d where d.seq < :before_seq::bigint order by d.seq desc`,
      ),
      diedBefore: byBucket(
        `select s.seq, s.died_at as happened_at from ${n.state} s
    where s.status = ${status.dead} and s.seq < :before_seq::bigint order by s.seq desc`,
      ),
      blockedPartitions: `select h.partition_key, h.waiting, ${epochMs("b.since")} as waiting_since, ${messageKey(n)}, m.topic, s.status,
  s.locked_until is not null as leased, ${holdsMessage(n)} as paused, s.attempt, s.last_error,
  ${epochMs("coalesce(s.reclaimable_at, s.visible_at)")} as next_attempt_at,
  ${epochMs("s.died_at")} as died_at
from (
  select q.partition_key, min(q.position) as position, (count(*) - 1)::float8 as waiting
  from ${partitionQueue(n)} q
  group by q.partition_key
) h
join ${partitionQueue(n)} q on q.partition_key = h.partition_key and q.position = h.position
join ${n.state} s on s.seq = q.seq
join ${n.message} m on m.seq = q.seq
left join lateral (
  select w.${createdColumn(n)} as since
  from ${partitionQueue(n)} behind
  join ${n.message} w on w.seq = behind.seq
  where behind.partition_key = h.partition_key and behind.position > h.position
  order by behind.position
  limit 1
) b on true
where s.status = ${status.dead} or (h.waiting > 0
  and (${holdsMessage(n)} or s.locked_until is not null or s.attempt > 0 or coalesce(s.reclaimable_at, s.visible_at) > ${now}))
order by s.status = ${status.dead} desc, h.waiting desc, h.partition_key
limit (select :limit::int)`,
      byCorrelation: `with ${n.kind === "inbox" ? `recursive ${sources(n)}, ` : ""}found as (
  select * from (
    select m.seq from ${n.message} m where m.correlation_id = :correlation_id::text order by m.seq limit (select :limit::int)
  ) correlated
  union
  ${ownId(n)}
)
select ${messageKey(n)}${n.kind === "inbox" ? "" : ", m.message_id"}, m.topic, coalesce(s.status, ${status.done}) as status,
  s.locked_until is not null as leased, m.correlation_id, m.partition_key, coalesce(s.attempt, d.attempt) as attempt,
  coalesce(s.last_error, d.last_error) as last_error, ${epochMs(`m.${createdColumn(n)}`)} as enqueued_at,
  (select min(${epochMs("a.ended_at")}) from ${attemptsTable(n)} a where a.seq = m.seq) as first_failed_at,
  ${epochMs("d.processed_at")} as processed_at, ${epochMs("s.died_at")} as died_at${
    n.kind === "inbox" ? ", d.resolution" : ""
  }
${messages(n)}
where m.seq = any (array(select seq from found))
order by m.seq
limit (select :limit::int)`,
    },
    ["deadGroups", "countDead", "enqueuedBefore", "doneBefore", "diedBefore"],
  );
}

const control = (n: QueueNames) => `c.scope, c.name, c.paused, c.per_second, c.who,
  ${epochMs("c.changed_at")} as changed_at, (
    select count(*) from ${n.state} s join ${n.message} m on m.seq = s.seq
    where s.status in (${status.ready}, ${status.blocked}) and s.locked_until is null and ${appliesTo(n)}
  )::float8 as waiting`;

/** Counts rows by bucket. `rows` has `seq` and `happened_at`. */
const byBucket = (
  rows: string,
): string => `select b.bucket, count(*)::float8 as count, min(b.seq) as first_seq
from (
  select r.seq, case
      when r.happened_at < :since::timestamptz then -1
      else floor(${epochMs("(r.happened_at - :since::timestamptz)")} / :bucket_ms::float8)
    end as bucket
  from (
    ${rows}
    limit :limit::int
  ) r
) b
group by b.bucket`;

/**
 * The sources of an inbox, each found by one step in the index of its keys: an index of only message ids would be paid for by
 * every message.
 */
const sources = (n: QueueNames) => `sources as (
  (select m.source from ${n.message} m order by m.source limit 1)
  union all
  select (select m.source from ${n.message} m where m.source > s.source order by m.source limit 1)
  from sources s
  where s.source is not null
)`;

const ownId = (n: QueueNames) =>
  n.kind === "inbox"
    ? `select m.seq
  from (select source from sources where source is not null limit ${maxSources}) s
  join ${n.message} m on m.source = s.source and m.message_id = :correlation_id::text`
    : `select m.seq from ${n.message} m where m.id = :id::uuid`;
