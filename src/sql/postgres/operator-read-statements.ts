import { mostSources } from "../defaults.js";
import type { OperatorReadStatements } from "../dialect.js";
import { status } from "../dialect.js";
import { type SqlStatement, statement } from "../driver.js";
import { bornAt, keyColumns, type QueueNames } from "../names.js";
import { readControls } from "./control-statements.js";
import { deadStatements } from "./dead-statements.js";
import { epochMs, now } from "./expressions.js";
import { attemptsTable, doneTable } from "./names.js";
import { partitionQueue } from "./partitions.js";
import { messages } from "./views.js";

/** Counts rows by bucket. `rows` has `seq` and `happened_at`. Planned each time, so that the limit is known. */
const byBucket = (name: string, rows: string): SqlStatement => ({
  ...statement(
    name,
    `select b.bucket, count(*)::float8 as count, min(b.seq) as first_seq
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
group by b.bucket`,
  ),
  unprepared: true,
});

export const operatorReadStatements = (n: QueueNames): OperatorReadStatements => ({
  ...deadStatements(n),
  controls: readControls(n),
  unfinished: statement(
    "unfinished",
    `select count(*)::float8 as count, ${epochMs(now)} as now
from (
  select from ${n.state} s
  where s.status in (${status.ready}, ${status.held}, ${status.blocked}, ${status.parked})
  limit (select :limit::int)
) u`,
  ),
  enqueuedBefore: byBucket(
    "enqueued before",
    `select m.seq, m.${bornAt(n)} as happened_at from ${n.message} m where m.seq < :before_seq::bigint order by m.seq desc`,
  ),
  doneBefore: byBucket(
    "done before",
    `select d.seq, d.processed_at as happened_at from ${doneTable(n)} d where d.seq < :before_seq::bigint order by d.seq desc`,
  ),
  diedBefore: byBucket(
    "died before",
    `select s.seq, s.died_at as happened_at from ${n.state} s
    where s.status = ${status.dead} and s.seq < :before_seq::bigint order by s.seq desc`,
  ),
  blockedPartitions: statement(
    "blocked partitions",
    `select h.partition_key, h.waiting, ${epochMs("b.since")} as waiting_since, ${keys(n)}, m.topic, s.status,
  s.locked_until is not null as leased, s.attempt, s.last_error, ${epochMs("coalesce(s.reclaimable_at, s.visible_at)")} as next_attempt_at,
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
  select w.${bornAt(n)} as since
  from ${partitionQueue(n)} behind
  join ${n.message} w on w.seq = behind.seq
  where behind.partition_key = h.partition_key and behind.position > h.position
  order by behind.position
  limit 1
) b on true
where s.status = ${status.dead} or (h.waiting > 0
  and (s.status = ${status.parked} or s.locked_until is not null or s.attempt > 0 or coalesce(s.reclaimable_at, s.visible_at) > ${now}))
order by s.status = ${status.dead} desc, h.waiting desc, h.partition_key
limit (select :limit::int)`,
  ),
  byCorrelation: statement(
    "by correlation",
    `with ${n.kind === "inbox" ? `recursive ${sources(n)}, ` : ""}found as (
  select * from (
    select m.seq from ${n.message} m where m.correlation_id = :correlation_id::text order by m.seq limit (select :limit::int)
  ) correlated
  union
  ${ownId(n)}
)
select ${keys(n)}${n.kind === "inbox" ? "" : ", m.message_id"}, m.topic, coalesce(s.status, ${status.done}) as status,
  s.locked_until is not null as leased, m.correlation_id, m.partition_key, coalesce(s.attempt, d.attempt) as attempt,
  coalesce(s.last_error, d.last_error) as last_error, ${epochMs(`m.${bornAt(n)}`)} as enqueued_at,
  (select min(${epochMs("a.ended_at")}) from ${attemptsTable(n)} a where a.seq = m.seq) as first_failed_at,
  ${epochMs("d.processed_at")} as processed_at, ${epochMs("s.died_at")} as died_at${
    n.kind === "inbox" ? ", d.ended_as" : ""
  }
${messages(n)}
where m.seq = any (array(select seq from found))
order by m.seq
limit (select :limit::int)`,
  ),
});

const keys = (n: QueueNames) =>
  keyColumns(n)
    .map((column) => `m.${column}`)
    .join(", ");

/**
 * The sources of an inbox, each found by one step in the index of its keys: an index of message ids alone would be paid for by
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
  from (select source from sources where source is not null limit ${mostSources}) s
  join ${n.message} m on m.source = s.source and m.message_id = :correlation_id::text`
    : `select m.seq from ${n.message} m where m.id = :id::uuid`;
