import { beforeThat, reasons } from "../dead-letters.js";
import { status } from "../dialect.js";
import { createdColumn, lastSeenAt, literal, type QueueNames } from "../names.js";
import {
  attemptsTable,
  doneTable,
  messageKey,
  moreAttempts,
  moreCrashes,
  ms,
  named,
  now,
} from "./expressions.js";
import { purgeOperations, recordAttempts } from "./history.js";
import { lease, lostAttempts, removeDead, whyEnded } from "./leases.js";
import { isInPartition, unblock } from "./partitions.js";

export const maintenanceStatements = (n: QueueNames, blockOnDead: boolean) =>
  named({
    reap: reap(n, blockOnDead),
    // Walks the primary key of the done rows in windows. An index of their times would be paid for by every ack. The
    // message is locked first: a redelivery or a resend that has locked it keeps both rows. Then the done row decides: a resend that
    // committed since the statement began took it away, and the message stays.
    purge: `with ${rules}, scanned as (
  select d.seq, d.processed_at
  from ${doneTable(n)} d
  where d.seq > :after_seq::bigint
  order by d.seq
  limit (select :limit::int)
), old as (
  select m.seq
  from ${n.message} m
  where m.seq = any (array(select seq from scanned where processed_at < ${youngest}))
    and greatest(m.${lastSeenAt(n)}, (select d.processed_at from ${doneTable(n)} d where d.seq = m.seq)) < ${keptSince(n)}
  for update skip locked
), gone_done as (
  delete from ${doneTable(n)} d
  where d.seq = any (array(select seq from old))
  returning d.seq
), ${goneMessages(n, "gone_done")}
${result(n)}`,
    // Walks the index of dead messages in windows.
    purgeDead: `with ${rules}, scanned as (
  select s.seq, s.died_at
  from ${n.state} s
  where s.status = ${status.dead} and s.seq > :after_seq::bigint
  order by s.seq
  limit (select :limit::int)
), old as (
  select m.seq
  from ${n.message} m
  join ${n.state} s on s.seq = m.seq
  where m.seq = any (array(select seq from scanned where died_at < ${youngest}))
    and s.status = ${status.dead} and greatest(m.${lastSeenAt(n)}, s.died_at) < ${keptSince(n)}
    and coalesce(s.locked_until <= ${now}, true) -- else another process reports its expiry
    and not ${isInPartition(n, "s")}
  for update skip locked
), ${goneMessages(n, "old")}, gone_states as (
  delete from ${n.state} s
  where s.seq = any (array(select seq from gone))
)
${result(n)}`,
    purgeOperations: purgeOperations(n),
  });

/**
 * reclaimable_at already holds the end of the lease plus the back-off and stays, so reaper and claim come to the same time. Leases and
 * expiries have no index, because every message would pay for it: the table holds only unfinished messages, and a
 * claim finds lost and expired ones by itself.
 */
function reap(n: QueueNames, blockOnDead: boolean): string {
  const hasLease = "s.locked_until is not null";
  const dies = `(s.expires_at <= ${now} or (${hasLease} and s.attempt + 1 >= :max_attempts::int))`;
  return `with ended as (
  select s.seq, s.attempt, s.locked_until, s.owner
  from ${n.state} s
  where s.status in (${status.ready}, ${status.blocked})
    and case when ${hasLease} then s.locked_until < ${now} else s.expires_at <= ${now} end
  limit (select :limit::int)
  for update skip locked
), reaped as (
  update ${n.state} s
  set status = case when ${dies} then ${status.dead} else s.status end,
    attempt = ${moreAttempts(`(${hasLease})::int`)},
    crashes = ${moreCrashes(`(${hasLease})::int`)},
    owner = null,
    locked_until = null,
    ${whyEnded(now)},
    last_attempt_at = coalesce(s.locked_until, s.last_attempt_at),
    died_at = case when ${dies} then ${now} else s.died_at end
  where s.seq = any (array(select seq from ended))
  returning s.seq, s.status, s.expires_at, s.keyed
)
select r.seq, ${messageKey(n)},
  case when r.status <> ${status.dead} then 'reaped' when r.expires_at <= ${now} then 'expired' else 'exhausted' end as verdict
from reaped r
join ${n.message} m on m.seq = r.seq
where ${removeDead(n, blockOnDead, "reaped", `leaving.status = ${status.dead}`)}${blockOnDead ? "" : ` and ${unblock(n)}`}
  and ${recordAttempts(n, lostAttempts("ended"))}`;
}

/** No message that ended after this time is deleted. */
const youngest = `${now} - ${ms(":shortest_ms::float8")}`;

const rules = `rules as materialized (
  select *
  from json_to_recordset(:rules::json) as r(
    position int, topic text, topic_prefix text, type text, type_prefix text, source text, retention_ms float8
  )
)`;

/** The time from which on the message `m` is kept, by the first rule that fits it; null for ever. */
const keptSince = (n: QueueNames): string => `(
      select ${now} - ${ms("r.retention_ms")}
      from rules r
      where coalesce(r.topic = m.topic, true)
        and coalesce(starts_with(m.topic, r.topic_prefix), true)
        and coalesce(r.type = coalesce(m.type, m.topic), true)
        and coalesce(starts_with(coalesce(m.type, m.topic), r.type_prefix), true)
        and coalesce(r.source = ${n.kind === "inbox" ? "m.source" : "''"}, true)
      order by r.position
      limit 1
    )`;

/** What a purge deleted, and whether a later window may have more: no message ends before it is enqueued. */
const result = (n: QueueNames) => `select (select count(*) from gone)::int as deleted,
  (select max(seq) from scanned) as last_seq,
  (select count(*) = :limit::int from scanned) and exists (
    select from ${n.message} m
    where m.seq = (select max(seq) from scanned) and m.${createdColumn(n)} < ${youngest}
  ) as more`;

const goneMessages = (n: QueueNames, chosen: string) => `gone as (
  delete from ${n.message} m
  where m.seq = any (array(select seq from ${chosen}))
  returning m.seq
), gone_attempts as (
  delete from ${attemptsTable(n)} a
  where a.seq = any (array(select seq from gone))
)`;

/** Of dead messages of an outbox whose expiry has not been reported. */
export function expireDead(n: QueueNames): string {
  const saysNothing = `position(${literal(reasons.expired)} in coalesce(s.last_error, '')) = 0`;
  return `with ended as (
  select s.seq
  from ${n.state} s
  where s.status = ${status.dead} and s.expires_at <= ${now}
    and case when s.locked_until is null then ${saysNothing} else s.locked_until <= ${now} end
  limit (select :limit::int)
  for update skip locked
), expired as (
  update ${n.state} s
  set owner = :owner::uuid,
    locked_until = ${now} + ${lease},
    last_error = case when ${saysNothing} then concat_ws(${literal(beforeThat)}, ${literal(reasons.expired)}, s.last_error) else s.last_error end
  where s.seq = any (array(select seq from ended))
  returning s.seq
)
select e.seq, m.id
from expired e
join ${n.message} m on m.seq = e.seq`;
}
