import {
  type DeadStatements,
  type OperatorDialect,
  type OperatorReadStatements,
  type OperatorStatements,
  status,
} from "../dialect.js";
import type { SqlStatement } from "../driver.js";
import { createdColumn, literal, type QueueNames, queueId } from "../names.js";
import { maxSources } from "../store-options.js";
import { steps } from "./connection.js";
import { appliesTo, holdsMessage } from "./controls.js";
import {
  attemptsTable,
  controlsTable,
  doneTable,
  keysOf,
  limit,
  messages,
  now,
  operationsTable,
  partitionQueue,
  sentSeqs,
  statusOf,
  stepSeqs,
} from "./expressions.js";
import { insertArchived } from "./history.js";
import { leavePartitions } from "./partitions.js";
import { readUnhandled } from "./unhandled.js";

/** The time to which ages refer: that of an operation's record, else now. */
const at = `coalesce(:at, ${now})`;

/** Dead messages `s` that match. A message's own row is read only where a condition needs it. */
const dead = (n: QueueNames) => `s.status = ${status.dead}
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
    () =>
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
    () =>
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
  `insert into ${doneTable(n)} (seq, processed_at, attempt, last_error, resolution)
select s.seq, ${now}, s.attempt, s.last_error, :resolution
from ${n.state} s
where s.seq in ${stepSeqs}`,
  `delete from ${n.state} where seq in ${stepSeqs}`,
  `delete from ${attemptsTable(n)} where seq in ${stepSeqs}`,
  leavePartitions(n),
];

export function operatorStatements(n: QueueNames): OperatorStatements {
  const table = operationsTable(n.schema);
  const queue = literal(queueId(n));
  return {
    // A trigger deletes the state and the attempts, and makes the next message of the partition key ready.
    discard: steps("discard", () => [sentDead(n), deleteMessages(n)]),
    archive: steps("archive", () => [
      sentDead(n),
      insertArchived(n),
      ...(n.kind === "inbox" ? keepAsDone(n) : [deleteMessages(n)]),
    ]),
    nextDead: steps(
      "next dead",
      () =>
        `select s.seq
${fromDead(n)}
where s.seq > :after_seq and ${dead(n)}
order by s.seq
limit ${limit}`,
    ),
    addOperation: steps(
      "add operation",
      () =>
        `insert into ${table} (id, started_at, who, action, queue, filter)
values (:id, ${now}, :who, :action, ${queue}, :filter)
returning ${operation}`,
    ),
    lockOperation: steps(
      "lock operation",
      () => `select ${operation} from ${table} where id = :id and queue = ${queue}`,
    ),
    moveOperation: steps(
      "move operation",
      () =>
        `update ${table}
set matched = :matched, done = :done, last_seq = :last_seq, ended_at = case when :ended then ${now} end,
  resumed_by = coalesce(:who, resumed_by), resumed_at = iif(:who is null, resumed_at, ${now})
where id = :id
returning ${operation}`,
    ),
    operations: steps(
      "operations",
      () =>
        `select ${operation} from ${table} where queue = ${queue} and (:id is null or id = :id)
order by ended_at is null desc, started_at desc, id desc limit ${limit}`,
    ),
    ...controlStatements(n),
  };
}

const control = (n: QueueNames) => `c.scope, c.name, c.paused, c.per_second, c.who, c.changed_at, (
    select count(*)
    from ${n.state} s
    join ${n.message} m on m.seq = s.seq
    where s.status in (${status.ready}, ${status.blocked}) and s.locked_until is null and ${appliesTo(n)}
  ) as waiting`;

const readControls = (n: QueueNames, condition = "true") => `select ${control(n)}
from ${controlsTable(n)} c
where ${condition}
order by c.changed_at, c.scope, c.name`;

const isNamed = "c.scope = :scope and c.name = :name";

const controlStatements = (n: QueueNames): Pick<OperatorStatements, "putControl" | "endControl"> => ({
  putControl: steps("put control", () => [
    `insert into ${controlsTable(n)} (scope, name, paused, per_second, refilled_at, who, changed_at)
values (:scope, :name, coalesce(:paused, 0), :per_second, ${now}, :who, ${now})
on conflict (scope, name) do update
set paused = coalesce(:paused, paused),
  per_second = coalesce(excluded.per_second, per_second),
  who = excluded.who,
  changed_at = excluded.changed_at`,
    readControls(n, isNamed),
  ]),
  endControl: steps("end control", () => [
    `update ${controlsTable(n)} as c
set paused = c.paused and not :paused,
  per_second = iif(:paused, c.per_second, null),
  who = :who,
  changed_at = ${now}
where ${isNamed} and iif(:paused, c.paused, c.per_second is not null)
returning scope`,
    readControls(n, `${isNamed} and :rows <> '[]'`),
    `delete from ${controlsTable(n)} as c where ${isNamed} and not c.paused and c.per_second is null`,
  ]),
});

/** Counts rows by bucket. `rows` has `seq` and `happened_at`, which is null where it has not happened. */
const byBucket = (name: string, rows: string): SqlStatement =>
  steps(
    name,
    () =>
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
  controls: steps("controls", () => readControls(n)),
  unhandled: steps("unhandled", () => readUnhandled(n)),
  unfinished: steps(
    "unfinished",
    () =>
      `select count(*) as count, ${now} as now
from (
  select 1 from ${n.state} where status in (${status.ready}, ${status.processing}, ${status.blocked}) limit ${limit}
)`,
  ),
  enqueuedBefore: byBucket(
    "enqueued before",
    `select m.seq, m.${createdColumn(n)} as happened_at from ${n.message} m where m.seq < :before_seq order by m.seq desc`,
  ),
  doneBefore: byBucket(
    "done before",
    `select d.seq, d.processed_at as happened_at from ${doneTable(n)} d where d.seq < :before_seq order by d.seq desc`,
  ),
  diedBefore: byBucket(
    "died before",
    `select s.seq, s.died_at as happened_at
  from ${n.state} s indexed by ${n.bare("Dead")}
  where s.status = ${status.dead} and s.seq < :before_seq order by s.seq desc`,
  ),
  blockedPartitions: steps(
    "blocked partitions",
    () =>
      `select h.partition_key, h.waiting, (
    select w.${createdColumn(n)}
    from ${partitionQueue(n)} behind
    join ${n.message} w on w.seq = behind.seq
    where behind.partition_key = h.partition_key and behind.position > h.position
    order by behind.position
    limit 1
  ) as waiting_since, ${keysOf(n)}, m.topic, s.status, s.locked_until is not null as leased, s.attempt, s.last_error,
  coalesce(s.reclaimable_at, s.visible_at) as next_attempt_at, s.died_at, ${holdsMessage(n)} as paused
from (
  select partition_key, min(position) as position, count(*) - 1 as waiting
  from ${partitionQueue(n)}
  group by partition_key
) h
cross join ${partitionQueue(n)} q on q.position = h.position
cross join ${n.state} s on s.seq = q.seq
cross join ${n.message} m on m.seq = q.seq
where s.status = ${status.dead} or (h.waiting > 0
  and (paused or s.locked_until is not null or s.attempt > 0 or coalesce(s.reclaimable_at, s.visible_at) > ${now}))
order by s.status = ${status.dead} desc, h.waiting desc, h.partition_key
limit ${limit}`,
  ),
  byCorrelation: steps(
    "by correlation",
    () =>
      `with ${n.kind === "inbox" ? `recursive ${sources(n)}, ` : ""}found (seq) as materialized (
  select * from (select seq from ${n.message} where correlation_id = :correlation_id order by seq limit ${limit})
  union
  ${ownId(n)}
)
select ${keysOf(n)}${n.kind === "inbox" ? "" : ", m.message_id"}, m.topic, ${statusOf} as status,
  s.locked_until is not null as leased, m.correlation_id, m.partition_key, coalesce(s.attempt, d.attempt) as attempt,
  coalesce(s.last_error, d.last_error) as last_error,
  m.${createdColumn(n)} as enqueued_at, (select min(a.ended_at) from ${attemptsTable(n)} a where a.seq = m.seq) as first_failed_at,
  d.processed_at, s.died_at${n.kind === "inbox" ? ", d.resolution" : ""}
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
  limit ${maxSources}
)`;

const ownId = (n: QueueNames) =>
  n.kind === "inbox"
    ? `select m.seq from sources s cross join ${n.message} m on m.source = s.source and m.message_id = :correlation_id`
    : `select seq from ${n.message} where id = :id`;

export const sqliteOperators: OperatorDialect = {
  changes: operatorStatements,
  reads: operatorReadStatements,
};
