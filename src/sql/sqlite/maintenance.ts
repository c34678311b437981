import { beforeThat, reasonGroup, reasons } from "../dead-letters.js";
import { status } from "../dialect.js";
import { createdColumn, lastSeenAt, literal, type QueueNames, queueId } from "../names.js";
import {
  doneTable,
  field,
  keysOf,
  lease,
  limit,
  moreAttempts,
  moreCrashes,
  now,
  operationsTable,
  partitionQueue,
  stepSeqs,
  whole,
} from "./expressions.js";
import { deathOf, endLost } from "./leases.js";
import { leaveAllDead } from "./partitions.js";

/**
 * Leases and expiries have no index, because every message would pay for it: the table holds only unfinished messages, and
 * a claim finds lost and expired ones by itself. reclaimable_at stays, so reaper and claim come to the same time.
 */
export const reap = (n: QueueNames, blockOnDead: boolean) => [
  `select s.seq
from ${n.state} s
where s.status in (${status.ready}, ${status.blocked})
  and iif(s.locked_until is null, s.expires_at <= ${now}, s.locked_until < ${now})
limit ${limit}`,
  ...endLost(n),
  `update ${n.state} as s
set attempt = ${moreAttempts("1")}, crashes = ${moreCrashes("1")}, owner = null, locked_until = null, last_attempt_at = s.locked_until,
  last_error = ${literal(reasons.leaseExpired)}, error_group = ${literal(reasonGroup("leaseExpired"))}
where s.seq in ${stepSeqs} and s.status <> ${status.dead}`,
  ...(blockOnDead ? [] : [leaveAllDead(n)]),
  `select s.seq, ${keysOf(n)}, iif(s.status = ${status.dead}, ${deathOf}, 'reaped') as verdict
from ${n.state} s
join ${n.message} m on m.seq = s.seq
where s.seq in ${stepSeqs}`,
];

const saysNothing = `instr(coalesce(s.last_error, ''), ${literal(reasons.expired)}) = 0`;

export const expireDead = (n: QueueNames) => [
  `update ${n.state} as s
set owner = :owner,
  locked_until = ${now} + ${lease},
  last_error = iif(
    ${saysNothing},
    ${literal(reasons.expired)} || coalesce(${literal(beforeThat)} || s.last_error, ''),
    s.last_error
  )
where s.seq in (
  select s.seq from ${n.state} s
  where s.status = ${status.dead} and s.expires_at <= ${now}
    and iif(s.locked_until is null, ${saysNothing}, s.locked_until <= ${now})
  limit ${limit}
)
returning seq`,
  `select m.seq, ${keysOf(n)} from ${n.message} m where m.seq in ${stepSeqs}`,
];

const before = `${now} - ${whole(":retention_ms")}`;

/** No message that ended after this time is deleted. */
const youngest = `${now} - ${whole(":shortest_ms")}`;

/** The time from which on the message `m` is kept, by the first rule that fits it; null for ever. */
const keptSince = (n: QueueNames) => `(
    select ${now} - ${whole(field("retention_ms"))}
    from json_each(:rules) i
    where ${fits("topic", "m.topic")}
      and ${fits("type", "coalesce(m.type, m.topic)")}
      and coalesce(${field("source")} = ${n.kind === "inbox" ? "m.source" : "''"}, true)
    order by ${field("position")}
    limit 1
  )`;

const fits = (name: string, value: string) => `coalesce(${field(name)} = ${value}, true)
      and coalesce(substr(${value}, 1, length(${field(`${name}_prefix`)})) = ${field(`${name}_prefix`)}, true)`;

/** By the primary key. An index of their times would be paid for by every ack. */
export const purge = (n: QueueNames) =>
  purgeRows(n, { table: `${doneTable(n)} r`, which: "true", endedAt: "r.processed_at" });

/** Without those whose expiry another process reports. */
export const purgeDead = (n: QueueNames) =>
  purgeRows(n, {
    table: `${n.state} r indexed by ${n.bare("Dead")}`,
    which: `r.status = ${status.dead}`,
    endedAt: "r.died_at",
    more: `coalesce(r.locked_until <= ${now}, true)
      and not exists (select 1 from ${partitionQueue(n)} q where q.seq = r.seq)`,
  });

interface PurgedRows {
  readonly table: string;
  readonly which: string;
  readonly endedAt: string;
  /** What must be so to delete them. */
  readonly more?: string;
}

/**
 * Walks rows `r` in windows of their numbers, and deletes the messages `m` that match. A trigger deletes what belongs to
 * them. A later window may have more while its messages are old enough: no message ends before it is enqueued.
 */
function purgeRows(n: QueueNames, { table, which, endedAt, more = "true" }: PurgedRows): readonly string[] {
  const rows = `from ${table} where ${which} and r.seq > :after_seq`;
  return [
    `select w.last_seq,
  w.rows = :limit and exists (
    select 1 from ${n.message} m where m.seq = w.last_seq and m.${createdColumn(n)} < ${youngest}
  ) as more
from (
  select max(seq) as last_seq, count(*) as rows
  from (select r.seq ${rows} order by r.seq limit ${limit})
) w`,
    `delete from ${n.message}
where seq in (
  select r.seq
  from ${table}
  cross join ${n.message} m on m.seq = r.seq
  where ${which} and r.seq > :after_seq and r.seq <= json_extract(:rows, '$[0].last_seq') and ${more}
    and ${endedAt} < ${youngest} and max(${endedAt}, m.${lastSeenAt(n)}) < ${keptSince(n)}
)`,
    `select changes() as deleted, json_extract(:rows, '$[0].last_seq') as last_seq, json_extract(:rows, '$[0].more') as more`,
  ];
}

/** Of ended operations: an unfinished one is needed to resume it. */
export const purgeOperations = (n: QueueNames) => [
  `delete from ${operationsTable(n.schema)}
where id in (
  select id
  from ${operationsTable(n.schema)}
  where queue = ${literal(queueId(n))} and ended_at < ${before}
  limit ${limit}
)`,
  "select changes() as deleted",
];
