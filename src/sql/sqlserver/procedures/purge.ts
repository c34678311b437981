import { status } from "../../dialect.js";
import { bornAt, lastSeenAt, type QueueNames } from "../../names.js";
import { deleteStates } from "../attempts.js";
import { addMs } from "../expressions.js";
import { partitionChangesTable, partitionQueueTable } from "../partitions.js";
import { atomically, lockRow, readPast, seekEach, skipLocked } from "./procedure.js";

interface Purged {
  /** The states in the order of their numbers, and the condition on those in a window. */
  readonly from: string;
  readonly where: string;
  /** When a state `s` ended. In the window it is null for one that is kept. */
  readonly endedAt: string;
  readonly endedAtInWindow: string;
  /** Of a state, when it is locked. */
  readonly hasEnded: string;
  /** Of a message, when it is locked. */
  readonly isOld: (m: string) => string;
  /** Runs before anything is locked: it may wait. */
  readonly keep?: string;
}

/**
 * Walks states in windows. The message is locked before its state, as everywhere, and neither is waited for: a redelivery
 * that has just locked the message keeps both rows. A later window may have more while its messages are old enough: no
 * message ends before it is enqueued.
 */
function purgeWindow(n: QueueNames, purged: Purged): string {
  const m = n.bare("");
  return `declare @before datetime2(3) = ${addMs(n, "@now", "-@retention_ms")};
declare @last_seq bigint, @more bit = 0;
declare @scanned table (seq bigint not null primary key, ended_at datetime2(3) null, keyed bit null);
declare @old table (seq bigint not null primary key);
declare @gone table (seq bigint not null primary key);

insert into @scanned (seq, ended_at, keyed)
select top (@limit) s.seq, ${purged.endedAtInWindow}, s.keyed
from ${purged.from}
where ${purged.where}
order by s.seq;

if @@rowcount = @limit set @more = 1;

select @last_seq = max(w.seq) from @scanned w;

if not exists (select 1 from ${n.message} m with (forceseek, ${readPast}) where m.seq = @last_seq and m.${bornAt(n)} < @before)
  set @more = 0;
${purged.keep ?? ""}
${atomically(`insert into @old (seq)
select m.seq
from @scanned w
inner join ${n.message} m with (forceseek, ${skipLocked}) on m.seq = w.seq
inner join ${n.state} s with (forceseek, ${skipLocked}) on s.seq = m.seq
where w.ended_at < @before and ${purged.hasEnded} and ${purged.endedAt} < @before and ${purged.isOld("m")} ${seekEach};

delete from ${n.message}
output deleted.seq into @gone (seq)
from @old o, ${n.message} with (${lockRow})
where ${m}.seq = o.seq and ${purged.isOld(m)} ${seekEach};

${deleteStates(n, "@gone")}`)}

select count(*) as deleted, @last_seq as last_seq, @more as more from @gone g;`;
}

/** By the primary key. An index of Done rows would be paid for by every ack. */
export const purge = (n: QueueNames): string =>
  purgeWindow(n, {
    from: `${n.state} s with (forceseek, ${readPast})`,
    where: "s.seq > @after_seq",
    endedAt: "s.processed_at",
    endedAtInWindow: `case when s.status = ${status.done} then s.processed_at end`,
    hasEnded: `s.status = ${status.done}`,
    isOld: (m) =>
      `${m}.${lastSeenAt(n)} < @before${n.kind === "inbox" ? ` and (@source is null or ${m}.source = @source)` : ""}`,
  });

/**
 * By the index of dead messages. Those that another process tells the expiry of are kept, and those in their partition
 * queues, or on their way there.
 */
export const purgeDead = (n: QueueNames): string =>
  purgeWindow(n, {
    from: `${n.state} s with (index(${n.bare("_Dead")}), forceseek, ${readPast})`,
    where: `s.status = ${status.dead} and s.seq > @after_seq`,
    endedAt: "s.died_at",
    endedAtInWindow: "s.died_at",
    hasEnded: `s.status = ${status.dead} and (s.locked_until is null or s.locked_until <= @now)`,
    isOld: (m) => `${m}.${lastSeenAt(n)} < @before`,
    keep: `
if exists (select 1 from @scanned w where w.keyed = 1)
begin
  declare @kept table (seq bigint not null);

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
`,
  });
