import { status } from "../../dialect.js";
import { bornAt, lastSeenAt, type QueueNames } from "../../names.js";
import { deleteStates } from "../attempts.js";
import { addMs, binary } from "../expressions.js";
import { partitionChangesTable, partitionQueueTable } from "../partitions.js";
import { atomically, lockRow, readPast, seekEach, skipLocked } from "./procedure.js";
import { keyOf } from "./rows.js";

/**
 * Deletes done messages or dead ones, as @status says. It walks states in windows: the done by the primary key, because an index
 * of them would be paid for by every ack; the dead by their index. The message is locked before its state, as everywhere,
 * and neither is waited for: a redelivery that has just locked the message keeps both rows. A later window may have more
 * while its messages are old enough: no message ends before it is enqueued.
 *
 * Dead messages that another process tells the expiry of are kept, and those in their partition queues, or on their way there.
 */
export function purge(n: QueueNames): string {
  const m = n.bare("");
  return `declare @before datetime2(3) = ${addMs(n, "@now", "-@retention_ms")};
declare @last_seq bigint, @more bit;
declare @scanned table (seq bigint not null primary key, ended_at datetime2(3) null, keyed bit null);
declare @kept table (seq bigint not null);
declare @old table (seq bigint not null primary key);
declare @gone table (seq bigint not null primary key);

if @status = ${status.done}
  insert into @scanned (seq, ended_at)
  select top (@limit) s.seq, case when s.status = ${status.done} then s.processed_at end
  from ${n.state} s with (forceseek, ${readPast})
  where s.seq > @after_seq
  order by s.seq;
else
  insert into @scanned (seq, ended_at, keyed)
  select top (@limit) s.seq, s.died_at, s.keyed
  from ${n.state} s with (index(${n.bare("_Dead")}), forceseek, ${readPast})
  where s.status = ${status.dead} and s.seq > @after_seq
  order by s.seq;

select @last_seq = max(w.seq), @more = case when count(*) = @limit then 1 else 0 end from @scanned w;

if not exists (select 1 from ${n.message} m with (forceseek, ${readPast}) where m.seq = @last_seq and m.${bornAt(n)} < @before)
  set @more = 0;

if exists (select 1 from @scanned w where w.keyed = 1)
begin
  insert into @kept (seq)
  select q.seq
  from @scanned w
  inner join ${partitionQueueTable(n)} q with (index(${n.bare("PartitionQueue_Seq")}), forceseek, rowlock, readcommittedlock) on q.seq = w.seq
  where w.keyed = 1 ${seekEach};

  insert into @kept (seq)
  select c.seq
  from ${partitionChangesTable(n)} c with (${readPast})
  inner join @scanned w on w.seq = c.seq ${seekEach};

  delete from @scanned where seq in (select k.seq from @kept k);
end

${atomically(`insert into @old (seq)
select m.seq
from @scanned w
inner join ${n.message} m with (forceseek, ${skipLocked}) on m.seq = w.seq
inner join ${n.state} s with (forceseek, ${skipLocked}) on s.seq = m.seq
cross apply ${keyOf(n, "m.seq")} k
where w.ended_at < @before and s.status = @status and case when @status = ${status.done} then s.processed_at else s.died_at end < @before
  and (s.locked_until is null or s.locked_until <= @now) and m.${lastSeenAt(n)} < @before
  and (@source is null or k.source = @source ${binary}) ${seekEach};

-- the condition is repeated: where UPDLOCK does not lock, it may have been delivered again by now
delete from ${n.message}
output deleted.seq into @gone (seq)
from @old o, ${n.message} with (${lockRow})
where ${m}.seq = o.seq and ${m}.${lastSeenAt(n)} < @before ${seekEach};

${deleteStates(n, "@gone")}`)}

select count(*) as deleted, @last_seq as last_seq, @more as more from @gone g;`;
}
