import { mostSources } from "../defaults.js";
import { type OperatorReadStatements, status } from "../dialect.js";
import type { SqlStatement } from "../driver.js";
import { bornAt, type QueueNames } from "../names.js";
import { readControls } from "./control-statements.js";
import { deadStatements } from "./dead-statements.js";
import { keysOf, limit, messages, now, stateColumns, unclaimed } from "./expressions.js";
import { attemptsTable, partitionQueue } from "./names.js";
import { steps } from "./steps.js";

/** Counts rows by bucket. `rows` has `seq` and `happened_at`, which is null where it has not happened. */
const byBucket = (name: string, rows: string): SqlStatement =>
  steps(
    name,
    `select iif(r.happened_at >= :since, cast((r.happened_at - :since) / :bucket_ms as integer), -1) as bucket,
  count(*) as count, min(r.seq) as first_seq
from (
  ${rows}
  limit ${limit}
) r
group by 1`,
  );

export const operatorReadStatements = (n: QueueNames): OperatorReadStatements => ({
  ...deadStatements(n),
  controls: readControls(n),
  // Each part by an index of its own: a condition on all of them would read the rows of all Done messages.
  unfinished: steps(
    "unfinished",
    `select ${[
      `${n.state} where status = ${status.ready}`,
      `${n.state} where status = ${status.held}`,
      `${n.state} where status = ${status.parked}`,
      `${partitionQueue(n)} q cross join ${n.state} s on s.seq = q.seq where s.status = ${status.blocked}`,
    ]
      .map((rows) => `(select count(*) from (select 1 from ${rows} limit ${limit}))`)
      .join("\n  + ")}
  + (select count(*) from (select 1 ${unclaimed(n)} limit ${limit})) as count,
  ${now} as now`,
  ),
  enqueuedBefore: byBucket(
    "enqueued before",
    `select m.seq, m.${bornAt(n)} as happened_at from ${n.message} m where m.seq < :before_seq order by m.seq desc`,
  ),
  doneBefore: byBucket(
    "done before",
    `select s.seq, iif(s.status = ${status.done}, s.processed_at, null) as happened_at
  from ${n.state} s where s.seq < :before_seq order by s.seq desc`,
  ),
  diedBefore: byBucket(
    "died before",
    `select s.seq, s.died_at as happened_at
  from ${n.state} s indexed by ${n.bare("Dead")}
  where s.died_at is not null and s.seq < :before_seq order by s.seq desc`,
  ),
  blockedPartitions: steps(
    "blocked partitions",
    `select h.partition_key, h.waiting, (
    select w.${bornAt(n)}
    from ${partitionQueue(n)} behind
    join ${n.message} w on w.seq = behind.seq
    where behind.partition_key = h.partition_key and behind.position > h.position
    order by behind.position
    limit 1
  ) as waiting_since, ${keysOf(n)}, m.topic, s.status, s.locked_until is not null as leased, s.attempt, s.last_error,
  s.visible_at as next_attempt_at, s.died_at
from (
  select partition_key, min(position) as position, count(*) - 1 as waiting
  from ${partitionQueue(n)}
  group by partition_key
) h
cross join ${partitionQueue(n)} q on q.position = h.position
cross join ${n.state} s on s.seq = q.seq
cross join ${n.message} m on m.seq = q.seq
where s.status = ${status.dead} or (h.waiting > 0 and (s.status = ${status.parked} or s.locked_until is not null or s.attempt > 0 or s.visible_at > ${now}))
order by s.status = ${status.dead} desc, h.waiting desc, h.partition_key
limit ${limit}`,
  ),
  byCorrelation: steps(
    "by correlation",
    `with ${n.kind === "inbox" ? `recursive ${sources(n)}, ` : ""}found (seq) as materialized (
  select * from (select seq from ${n.message} where correlation_id = :correlation_id order by seq limit ${limit})
  union
  ${ownId(n)}
)
select ${keysOf(n)}${n.kind === "inbox" ? "" : ", m.message_id"}, m.topic, ${stateColumns.status} as status,
  s.locked_until is not null as leased, m.correlation_id, m.partition_key, ${stateColumns.attempt} as attempt, s.last_error,
  m.${bornAt(n)} as enqueued_at, (select min(a.ended_at) from ${attemptsTable(n)} a where a.seq = m.seq) as first_failed_at,
  s.processed_at, s.died_at${n.kind === "inbox" ? ", s.ended_as" : ""}
${messages(n)}
where m.seq in (select seq from found)
order by m.seq
limit ${limit}`,
  ),
});

/**
 * The sources of an inbox, each found by one step in the index of its keys: an index of message ids alone would be paid for by
 * every message.
 */
const sources = (n: QueueNames) => `sources (source) as (
  select min(source) from ${n.message}
  union all
  select (select min(m.source) from ${n.message} m where m.source > s.source)
  from sources s
  where s.source is not null
  limit ${mostSources}
)`;

const ownId = (n: QueueNames) =>
  n.kind === "inbox"
    ? `select m.seq from sources s cross join ${n.message} m on m.source = s.source and m.message_id = :correlation_id`
    : `select seq from ${n.message} where id = :id`;
