import { status } from "../../dialect.js";
import { literal } from "../../literal.js";
import { bornAt, keyColumns, lastSeenAt, type QueueNames } from "../../names.js";
import { beforeThat, reasonGroups, reasons } from "../../reasons.js";
import { deleteStates, lostTable, pickLost, recordLost } from "../attempts.js";
import { addMs, asInt, binary, unicodeLiteral } from "../expressions.js";
import { callLeavePartition, partitionQueueTable, readPast } from "../partitions.js";
import {
  atomically,
  isDying,
  isLost,
  pickFrom,
  prepareLease,
  seekEach,
  skipLocked,
  stateTable,
} from "./procedure.js";
import { columns } from "./rows.js";

export function reap(n: QueueNames): string {
  const s = stateTable(n);
  const lost = isLost(s);
  const dies = isDying(s);
  const leaseEnded = (t: string) => `${t}.status = ${status.held} and ${t}.locked_until < @now`;
  const expired = (t: string) =>
    `${t}.expires_at <= @now and ${t}.expires_at is not null and ${t}.status in (${status.ready}, ${status.held}, ${status.blocked}, ${status.parked}) and ${t}.locked_until is null`;
  const pick = (from: string, condition: string, order: string) => `select o.seq
    from (
      select top (@limit) r.seq
      from ${from}
      where ${condition}
      order by ${order}
    ) o`;
  return `declare @reaped table (seq bigint not null primary key, status tinyint not null, expires_at datetime2(3) null, attempt int not null);
${lostTable}
declare @leaving_queue table (seq bigint not null primary key);

${atomically(`${pickLost(n, leaseEnded("r"), "r.visible_at, r.seq")}

-- visible_at already holds the end of the lease plus the back-off, so reaper and claim come to the same time
update ${n.state}
set status = case when ${dies} then ${status.dead} else ${status.held} end,
  attempt = ${s}.attempt + ${asInt(lost)},
  crashes = ${s}.crashes + ${asInt(lost)},
  owner = null,
  locked_until = null,
  last_error = case when ${s}.expires_at <= @now then ${unicodeLiteral(reasons.expired)} else ${unicodeLiteral(reasons.leaseExpired)} end,
  error_group = case when ${s}.expires_at <= @now then ${literal(reasonGroups.expired)} else ${literal(reasonGroups.leaseExpired)} end,
  last_attempt_at = coalesce(${s}.locked_until, ${s}.last_attempt_at),
  died_at = case when ${dies} then @now else ${s}.died_at end,
  parked_by = null
output inserted.seq, inserted.status, inserted.expires_at, inserted.attempt
into @reaped (seq, status, expires_at, attempt)
from (
  select top (@limit) u.seq
  from (
    ${pick(pickFrom(n, "_Held"), leaseEnded("r"), "r.visible_at, r.seq")}
    union all
    ${pick(`${n.state} r with (${skipLocked})`, expired("r"), "r.expires_at")}
  ) u
) p, ${n.state} with (${skipLocked})
where ${s}.seq = p.seq and ((${leaseEnded(s)}) or (${expired(s)}))
${seekEach};

${recordLost(n, "@reaped")}

-- also dead messages that are still in their partition queues because deadInPartition was "block"
if @blocks = 0
  insert into @leaving_queue (seq)
  select s.seq
  from ${n.state} s with (index(${n.bare("_Dead")}), ${readPast})
  where s.status = ${status.dead} and s.keyed = 1
    and exists (select 1 from ${partitionQueueTable(n)} q where q.seq = s.seq);

${callLeavePartition(n, "@leaving_queue", "1 = 1")}`)}

select r.seq as seq, ${columns("m", keyColumns(n))},
  case
    when r.status <> ${status.dead} then 'reaped'
    when r.expires_at <= @now then 'expired'
    else 'exhausted'
  end as verdict
from @reaped r
inner join ${n.message} m on m.seq = r.seq;`;
}

/** Each chosen row is tested again where it is locked: another process may be telling of it by then. */
export function expireDead(n: QueueNames): string {
  const s = stateTable(n);
  const expired = unicodeLiteral(reasons.expired);
  const saysNothing = (t: string) =>
    `charindex(${expired} ${binary}, coalesce(${t}.last_error, N'') ${binary}) = 0`;
  const untold = (t: string) =>
    `${t}.status = ${status.dead} and ${t}.expires_at <= @now and ((${t}.locked_until is null and ${saysNothing(t)}) or ${t}.locked_until <= @now)`;
  return `${prepareLease}
declare @expired table (seq bigint not null primary key);

update ${n.state}
set owner = @owner,
  locked_until = @lease_end,
  last_error = case
    when ${saysNothing(s)} then ${expired} + coalesce(${unicodeLiteral(beforeThat)} + ${s}.last_error, N'')
    else ${s}.last_error
  end
output inserted.seq into @expired (seq)
from (
  select top (@limit) r.seq
  from ${pickFrom(n, "_Dead")}
  where ${untold("r")}
  order by r.seq
) p, ${n.state} with (${skipLocked})
where ${s}.seq = p.seq and ${untold(s)}
${seekEach};

select e.seq as seq, ${columns("m", keyColumns(n))}
from @expired e
inner join ${n.message} m on m.seq = e.seq
${seekEach};`;
}

// Walks the primary key in windows. An index of Done rows would be paid for by every ack. Done is final, so the window may
// be read without locks. The message is deleted first: a redelivery that has just locked it keeps both rows.
export const purge = (n: QueueNames) => `declare @before datetime2(3) = ${addMs("@now", "-@retention_ms")};
declare @last_seq bigint, @more bit = 0;
declare @scanned table (seq bigint not null primary key, status tinyint not null, processed_at datetime2(3) null);
declare @gone table (seq bigint not null primary key);

insert into @scanned (seq, status, processed_at)
select top (@limit) s.seq, s.status, s.processed_at
from ${n.state} s with (readpast, rowlock, readcommittedlock)
where s.seq > @after_seq
order by s.seq;

if @@rowcount = @limit set @more = 1;

select @last_seq = max(w.seq) from @scanned w;

if not exists (select 1 from ${n.message} m where m.seq = @last_seq and m.${bornAt(n)} < @before) set @more = 0;

${atomically(`delete from ${n.message}
output deleted.seq into @gone (seq)
from @scanned w, ${n.message} with (readpast, rowlock, readcommittedlock)
where ${n.bare("")}.seq = w.seq and w.status = ${status.done} and w.processed_at < @before
  and ${n.bare("")}.${lastSeenAt(n)} < @before${n.kind === "inbox" ? `\n  and (@source is null or ${n.bare("")}.source = @source)` : ""}
${seekEach};

${deleteStates(n, "@gone")}`)}

select count(*) as deleted, @last_seq as last_seq, @more as more from @gone g;`;
