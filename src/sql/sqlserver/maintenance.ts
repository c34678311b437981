import { beforeThat, reasons } from "../dead-letters.js";
import { status } from "../dialect.js";
import { createdColumn, lastSeenAt, type QueueNames } from "../names.js";
import { addMs, binary, doneTable, keyDefinition, unicodeLiteral } from "./expressions.js";
import { changePicked, pick, pickedTables } from "./leases.js";
import { hasChanges, leaveDead, partitionChangesTable, partitionQueueTable } from "./partitions.js";
import {
  atomically,
  changeFirst,
  columns,
  deadIndex,
  deleteEach,
  indented,
  isSameKey,
  keyOf,
  keyOfMessage,
  lockRow,
  messageTable,
  ownRow,
  prepareLease,
  readPast,
  rowByRow,
  seizeFree,
  skipLocked,
  stateTable,
} from "./procedure.js";

/**
 * Leases and expiries have no index, because every claim would pay for it: the table holds only unfinished messages, and a
 * claim finds lost and expired ones by itself.
 */
export function reap(n: QueueNames): string {
  const s = stateTable(n);
  const ended = (t: string) =>
    `${t}.status in (${status.ready}, ${status.blocked}) and (${t}.locked_until < @now or (${t}.locked_until is null and ${t}.expires_at <= @now))`;
  return `${pickedTables}

${atomically(`${pick({ from: `${n.state} r with (${skipLocked})`, where: ended("r"), order: "r.seq" })}

-- reclaimable_at already holds the end of the lease plus the back-off, so reaper and claim come to the same time
${changePicked(
  n,
  `status = case when p.dies = 1 then ${status.dead} else ${s}.status end, owner = null, locked_until = null,
  last_attempt_at = coalesce(${s}.locked_until, ${s}.last_attempt_at)`,
  ended(s),
)}

if @blocks = 0 and exists (select 1 from ${partitionQueueTable(n)} q with (${readPast}))
  ${leaveDead(n).replaceAll("\n", "\n  ")}`)}

if ${hasChanges(n)}
  exec ${n.object("_ApplyPartitionChanges")};

select r.seq, k.*,
  case when r.status <> ${status.dead} then 'reaped' when r.expires_at <= @now then 'expired' else 'exhausted' end as verdict
from @changed r
cross apply ${keyOf(n, "r.seq")} k;`;
}

/** Leases dead messages whose expiry has not been reported. */
export function expireDead(n: QueueNames): string {
  const s = stateTable(n);
  const expired = unicodeLiteral(reasons.expired);
  const saysNothing = (t: string) =>
    `charindex(${expired} ${binary}, coalesce(${t}.last_error, N'') ${binary}) = 0`;
  const which = (t: string) =>
    `${t}.status = ${status.dead} and ${t}.expires_at <= @now and ((${t}.locked_until is null and ${saysNothing(t)}) or ${t}.locked_until <= @now)`;
  const set = `owner = @owner, locked_until = @lease_end,
  last_error = case when ${saysNothing(s)} then ${expired} + coalesce(${unicodeLiteral(beforeThat)} + ${s}.last_error, N'') else ${s}.last_error end`;
  return `${prepareLease(n)}
${changeFirst(n, set, { by: deadIndex(n), which, order: "r.seq" })}

select c.seq, k.*
from @changed c
cross apply ${keyOf(n, "c.seq")} k;`;
}

/**
 * Deletes done messages or dead ones, as @status says. It walks their rows in windows: the done by the primary key, because an index
 * of their times would be paid for by every ack; the dead by their index. A message is locked through the index of its key, as a
 * delivery locks it, and before its state or done row, as everywhere. Nothing is waited for: a redelivery that has just locked the key
 * keeps the message. A later window may have more while its messages are old enough: no message ends before it is enqueued.
 *
 * Dead messages whose expiry another process reports are kept, and those in their partition queues, or on their way there.
 */
export function purge(n: QueueNames): string {
  const m = messageTable(n);
  const key = keyOfMessage(n);
  const lockOld = (row: string, more: string) => `insert into @old (seq, kept_since)
select m.seq, w.kept_since
from @aged w
inner join ${n.message} m with (forceseek, ${seizeFree}) on ${isSameKey(n, "m", "w")}
inner join ${row} with (${ownRow}, forceseek, ${seizeFree}) on s.seq = m.seq
where w.ended_at < w.kept_since and m.${lastSeenAt(n)} < w.kept_since and ${more} ${rowByRow};`;
  return `declare @youngest datetime2(3) = ${addMs(n, "@now", "-@shortest_ms")};
declare @last_seq bigint, @more bit;
declare @scanned table (seq bigint not null primary key, ended_at datetime2(3) not null, keyed bit null);
declare @aged table (
  seq bigint not null primary key, ended_at datetime2(3) not null, kept_since datetime2(3) not null,
  ${keyDefinition(n)}
);
declare @kept table (seq bigint not null);
declare @old table (seq bigint not null primary key, kept_since datetime2(3) not null);
declare @gone table (seq bigint not null primary key);

if @status = ${status.done}
  insert into @scanned (seq, ended_at)
  select top (@limit) d.seq, d.processed_at
  from ${doneTable(n)} d with (forceseek, ${readPast})
  where d.seq > @after_seq
  order by d.seq;
else
  insert into @scanned (seq, ended_at, keyed)
  select top (@limit) s.seq, s.died_at, s.keyed
  from ${n.state} s with (${deadIndex(n)}, forceseek, ${readPast})
  where s.status = ${status.dead} and s.seq > @after_seq
  order by s.seq;

select @last_seq = max(w.seq), @more = case when count(*) = @limit then 1 else 0 end from @scanned w;

if not exists (select 1 from ${n.message} m with (forceseek, ${readPast}) where m.seq = @last_seq and m.${createdColumn(n)} < @youngest)
  set @more = 0;

if exists (select 1 from @scanned w where w.keyed = 1)
begin
  insert into @kept (seq)
  select q.seq
  from @scanned w
  inner join ${partitionQueueTable(n)} q with (forceseek, rowlock, readcommittedlock) on q.seq = w.seq
  where w.keyed = 1;

  insert into @kept (seq)
  select c.seq
  from ${partitionChangesTable(n)} c with (${readPast})
  inner join @scanned w on w.seq = c.seq;

  delete from @scanned where seq in (select k.seq from @kept k);
end

-- by the first rule that fits each message; those that are kept for ever are left out
insert into @aged (seq, ended_at, kept_since, ${key})
select w.seq, w.ended_at, a.later, ${columns("m", key)}
from @scanned w
inner join ${n.message} m with (forceseek, ${readPast}) on m.seq = w.seq
cross apply (
  select top (1) r.retention_ms
  from openjson(@rules) with (
    position int, topic nvarchar(255), topic_prefix nvarchar(255), type nvarchar(255), type_prefix nvarchar(255),
    source nvarchar(255), retention_ms float
  ) r
  where (r.topic is null or r.topic ${binary} = m.topic)
    and (r.topic_prefix is null or charindex(r.topic_prefix ${binary}, m.topic) = 1)
    and (r.type is null or r.type ${binary} = coalesce(m.type, m.topic))
    and (r.type_prefix is null or charindex(r.type_prefix ${binary}, coalesce(m.type, m.topic)) = 1)
    and (r.source is null or r.source ${binary} = ${n.kind === "inbox" ? "m.source" : "N''"})
  order by r.position
) r
cross apply ${n.object("_After")}(@now, -r.retention_ms) a
where w.ended_at < @youngest and r.retention_ms is not null;

${atomically(`if @status = ${status.done}
${indented(lockOld(`${doneTable(n)} s`, "s.processed_at < w.kept_since"))}
else
${indented(lockOld(`${n.state} s`, `s.status = ${status.dead} and s.died_at < w.kept_since and (s.locked_until is null or s.locked_until <= @now)`))}

-- the condition is repeated: where UPDLOCK does not lock, it may have been delivered again by now
delete from ${n.message}
output deleted.seq into @gone (seq)
from @old o, ${n.message} with (${lockRow})
where ${m}.seq = o.seq and ${m}.${lastSeenAt(n)} < o.kept_since;

if @status = ${status.done}
${indented(deleteEach(n, "Done", "@gone"))}
else
${indented(deleteEach(n, "State", "@gone"))}

${deleteEach(n, "Attempts", "@gone")}`)}

select count(*) as deleted, @last_seq as last_seq, @more as more from @gone g;`;
}
