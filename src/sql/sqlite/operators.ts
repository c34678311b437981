import {
  type DeadStatements,
  type OperatorDialect,
  type OperatorReadStatements,
  type OperatorStatements,
  status,
} from "../dialect.js";
import type { SqlStatement } from "../driver.js";
import { createdColumn, literal, type QueueNames, queueId } from "../names.js";
import { mostSources } from "../store-options.js";
import {
  attemptsTable,
  controlsTable,
  keysOf,
  limit,
  messages,
  now,
  partitionQueue,
  sentSeqs,
  stateColumns,
  stepSeqs,
  unclaimed,
} from "./expressions.js";
import { insertArchived, operationsTable } from "./history.js";
import { leave } from "./partitions.js";
import { steps } from "./steps.js";

/** The time to which ages refer: that of an operation's record, else now. */
const at = `coalesce(:at, ${now})`;

/** Dead messages `s` that match: no other has `died_at`. A message's own row is read only where a condition needs it. */
const dead = (n: QueueNames) => `s.died_at is not null
    and s.died_at <= ${at}
    and (:error_group is null or coalesce(s.error_group, '') = :error_group)
    and (:error is null or instr(s.last_error, :error) > 0)
    and (:older_than_ms is null or s.died_at <= ${at} - :older_than_ms)
    and (:newer_than_ms is null or s.died_at >= ${at} - :newer_than_ms)
    and (coalesce(:topic, :source) is null or exists (
      select 1 from ${n.message} m
      where m.seq = s.seq
        and (:topic is null or m.topic = :topic)
        and (:source is null or ${n.kind === "inbox" ? "m.source = :source" : "false"})
    ))`;

const fromDead = (n: QueueNames) => `from ${n.state} s indexed by ${n.bare("Dead")}`;

export const deadStatements = (n: QueueNames): DeadStatements => ({
  deadGroups: steps(
    "dead groups",
    `select g.error_group, g.count, g.first_at, g.last_at, s.last_error, ${keysOf(n)}
from (
  select coalesce(s.error_group, '') as error_group, count(*) as count, min(s.died_at) as first_at,
    max(s.died_at) as last_at, max(s.seq) as seq
  ${fromDead(n)}
  where ${dead(n)}
  group by coalesce(s.error_group, '')
  order by count desc, error_group
  limit ${limit}
) g
join ${n.state} s on s.seq = g.seq
join ${n.message} m on m.seq = g.seq
order by g.count desc, g.error_group`,
  ),
  countDead: steps(
    "count dead",
    `select count(*) as count
${fromDead(n)}
where ${dead(n)}`,
  ),
});

const operation =
  "id, started_at, who, action, queue, filter, matched, done, last_seq, ended_at, resumed_by, resumed_at";

const sentDead = (n: QueueNames) =>
  `select seq from ${n.state} where seq in ${sentSeqs} and status = ${status.dead}`;

const deleteMessages = (n: QueueNames) => `delete from ${n.message} where seq in ${stepSeqs}`;

/** Steps: the keys stay, and are purged with other Done messages. What they contained is in the archive. */
const keepAsDone = (n: QueueNames): readonly string[] => [
  `update ${n.message} set payload = '', headers = null where seq in ${stepSeqs}`,
  `update ${n.state} set status = ${status.done}, ended_as = :ended_as, processed_at = ${now}, died_at = null where seq in ${stepSeqs}`,
  `delete from ${attemptsTable(n)} where seq in ${stepSeqs}`,
  leave(n),
];

export function operatorStatements(n: QueueNames): OperatorStatements {
  const table = operationsTable(n.schema);
  const queue = literal(queueId(n));
  return {
    // A trigger deletes the state and the attempts, and makes the next message of the partition key ready.
    discard: steps("discard", sentDead(n), deleteMessages(n)),
    archive: steps(
      "archive",
      sentDead(n),
      insertArchived(n),
      ...(n.kind === "inbox" ? keepAsDone(n) : [deleteMessages(n)]),
    ),
    nextDead: steps(
      "next dead",
      `select s.seq
${fromDead(n)}
where s.seq > :after_seq and ${dead(n)}
order by s.seq
limit ${limit}`,
    ),
    addOperation: steps(
      "add operation",
      `insert into ${table} (id, started_at, who, action, queue, filter)
values (:id, ${now}, :who, :action, ${queue}, :filter)
returning ${operation}`,
    ),
    lockOperation: steps(
      "lock operation",
      `select ${operation} from ${table} where id = :id and queue = ${queue}`,
    ),
    moveOperation: steps(
      "move operation",
      `update ${table}
set matched = :matched, done = :done, last_seq = :last_seq, ended_at = case when :ended then ${now} end,
  resumed_by = coalesce(:who, resumed_by), resumed_at = iif(:who is null, resumed_at, ${now})
where id = :id
returning ${operation}`,
    ),
    operations: steps(
      "operations",
      `select ${operation} from ${table} where queue = ${queue} and (:id is null or id = :id)
order by ended_at is null desc, started_at desc, id desc limit ${limit}`,
    ),
    ...controlStatements(n),
  };
}

const control = (n: QueueNames, c: string) => `id, scope, name, paused, per_second, who, changed_at, (
  select count(*) from ${n.state} s where s.status = ${status.parked} and s.parked_by = ${c}.id
) as parked`;

export const readControls = (n: QueueNames): OperatorReadStatements["controls"] =>
  steps("controls", `select ${control(n, "c")} from ${controlsTable(n)} c order by id`);

export const controlStatements = (n: QueueNames): Pick<OperatorStatements, "putControl" | "endControl"> => ({
  putControl: steps(
    "put control",
    `insert into ${controlsTable(n)} (scope, name, paused, per_second, refilled_at, who, changed_at)
values (:scope, :name, coalesce(:paused, 0), :per_second, ${now}, :who, ${now})
on conflict (scope, name) do update
set paused = coalesce(:paused, paused),
  per_second = coalesce(excluded.per_second, per_second),
  who = excluded.who,
  changed_at = excluded.changed_at
returning ${control(n, controlsTable(n))}`,
  ),
  endControl: steps(
    "end control",
    `update ${controlsTable(n)}
set paused = paused and not :paused,
  per_second = case when :paused then per_second end,
  who = :who,
  changed_at = ${now}
where scope = :scope and name = :name and case when :paused then paused else per_second is not null end
returning ${control(n, controlsTable(n))}`,
  ),
});

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
    `select m.seq, m.${createdColumn(n)} as happened_at from ${n.message} m where m.seq < :before_seq order by m.seq desc`,
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
    select w.${createdColumn(n)}
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
  m.${createdColumn(n)} as enqueued_at, (select min(a.ended_at) from ${attemptsTable(n)} a where a.seq = m.seq) as first_failed_at,
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

export const sqliteOperators: OperatorDialect = {
  changes: operatorStatements,
  reads: operatorReadStatements,
};
