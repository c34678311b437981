import { beforeThat, reasonGroup, reasons } from "../dead-letters.js";
import { type QueueStatements, status } from "../dialect.js";
import type { SqlStatement } from "../driver.js";
import { createdColumn, lastSeenAt, literal, type QueueNames } from "../names.js";
import { hasExpiry, keysOf, lease, limit, now, partitionQueue, stepSeqs, whole } from "./expressions.js";
import { purgeOperations } from "./history.js";
import { dies, hasLease } from "./leases.js";
import { leaveAllDead } from "./partitions.js";
import { steps } from "./steps.js";

/** visible_at already holds the end of the lease and the back-off after it: reaper and claim come to the same time. */
export const reap = (n: QueueNames, blockOnDead: boolean): SqlStatement =>
  steps(
    "reap",
    `update ${n.state} as s
set status = case when ${dies} then ${status.dead} else ${status.held} end,
  attempt = s.attempt + (${hasLease}),
  crashes = s.crashes + (${hasLease}),
  owner = null,
  locked_until = null,
  last_error = case when s.expires_at <= ${now} then ${literal(reasons.expired)} else ${literal(reasons.leaseExpired)} end,
  error_group = case when s.expires_at <= ${now} then ${literal(reasonGroup("expired"))} else ${literal(reasonGroup("leaseExpired"))} end,
  last_attempt_at = coalesce(s.locked_until, s.last_attempt_at),
  died_at = case when ${dies} then ${now} else s.died_at end,
  passes = null
where s.seq in (
  select seq from (
    select seq from ${n.state} where status = ${status.held} and locked_until < ${now} limit ${limit}
  )
  union all
  select seq from (
    select seq from ${n.state}
    where expires_at <= ${now} and ${hasExpiry} and status <> ${status.dead} and locked_until is null
    limit ${limit}
  )
  limit ${limit}
)
returning seq`,
    ...(blockOnDead ? [] : [leaveAllDead(n)]),
    `select s.seq, ${keysOf(n)},
  case when s.status <> ${status.dead} then 'reaped' when s.expires_at <= ${now} then 'expired' else 'exhausted' end as verdict
from ${n.state} s
join ${n.message} m on m.seq = s.seq
where s.seq in ${stepSeqs}`,
  );

const saysNothing = `instr(coalesce(s.last_error, ''), ${literal(reasons.expired)}) = 0`;

export const expireDead = (n: QueueNames): SqlStatement =>
  steps(
    "expire dead",
    `update ${n.state} as s
set owner = :owner,
  locked_until = ${now} + ${lease},
  last_error = case
    when ${saysNothing} then ${literal(reasons.expired)} || coalesce(${literal(beforeThat)} || s.last_error, '')
    else s.last_error
  end
where s.seq in (
  select seq from ${n.state} s
  where expires_at <= ${now} and ${hasExpiry} and status = ${status.dead}
    and case when locked_until is null then ${saysNothing} else locked_until <= ${now} end
  limit ${limit}
)
returning seq`,
    `select m.seq, ${keysOf(n)} from ${n.message} m where m.seq in ${stepSeqs}`,
  );

const before = `${now} - ${whole(":retention_ms")}`;

/**
 * Walks states `s` in windows, and deletes the messages `m` that match. A trigger deletes the state and the attempts. A later
 * window may have more while its messages are old enough: no message ends before it is enqueued.
 */
const purge = (n: QueueNames, name: string, states: string, inWindow: string, isOld: string): SqlStatement =>
  steps(
    name,
    `select w.last_seq,
  w.rows = :limit and exists (
    select 1 from ${n.message} m where m.seq = w.last_seq and m.${createdColumn(n)} < ${before}
  ) as more
from (
  select max(seq) as last_seq, count(*) as rows
  from (select s.seq from ${states} where ${inWindow} and s.seq > :after_seq order by s.seq limit ${limit})
) w`,
    `delete from ${n.message}
where seq in (
  select m.seq
  from json_each(:rows) r
  cross join ${states}
  cross join ${n.message} m on m.seq = s.seq
  where ${inWindow} and s.seq > :after_seq and s.seq <= json_extract(r.value, '$.last_seq')
    and m.${lastSeenAt(n)} < ${before}
    and ${isOld}
)`,
    `select changes() as deleted, json_extract(r.value, '$.last_seq') as last_seq, json_extract(r.value, '$.more') as more
from json_each(:rows) r`,
  );

const ofSource = (n: QueueNames) =>
  n.kind === "inbox" ? "\n    and (:source is null or m.source = :source)" : "";

export const purgeStatements = (
  n: QueueNames,
): Pick<QueueStatements, "purge" | "purgeDead" | "purgeOperations"> => ({
  // By the primary key. An index of Done rows would cost every ack.
  purge: purge(
    n,
    "purge",
    `${n.state} s`,
    "true",
    `s.status = ${status.done} and s.processed_at < ${before}${ofSource(n)}`,
  ),
  // Without those that another process tells the expiry of.
  purgeDead: purge(
    n,
    "purge dead",
    `${n.state} s indexed by ${n.bare("Dead")}`,
    "s.died_at is not null",
    `s.died_at < ${before} and coalesce(s.locked_until <= ${now}, true)
    and not exists (select 1 from ${partitionQueue(n)} q where q.seq = s.seq)`,
  ),
  purgeOperations: purgeOperations(n),
});
