import { status } from "../../dialect.js";
import { literal } from "../../literal.js";
import type { QueueNames } from "../../names.js";
import { beforeThat, reasonGroup, reasons } from "../../reasons.js";
import { changedTable, outputChanged, pick, pickedTable, recordLost } from "../attempts.js";
import { binary, unicodeLiteral } from "../expressions.js";
import { hasChanges, leaveDead, leavePartition, partitionQueueTable } from "../partitions.js";
import {
  atomically,
  isWhole,
  lockRow,
  pickFrom,
  prepareLease,
  readPast,
  seekEach,
  skipLocked,
  stateTable,
} from "./procedure.js";
import { keyOf } from "./rows.js";

export function reap(n: QueueNames): string {
  const s = stateTable(n);
  const leaseEnded = (t: string) => `${t}.status = ${status.held} and ${t}.locked_until < @now`;
  const expired = (t: string) =>
    `${t}.expires_at <= @now and ${t}.expires_at is not null and ${t}.locked_until is null
    and ${t}.status in (${status.ready}, ${status.held}, ${status.blocked}, ${status.parked})`;
  return `${pickedTable}
${changedTable("@reaped")}

${atomically(`${pick(n, { top: "@limit", index: "_Held", where: leaseEnded("r"), order: "r.visible_at, r.seq" })}

set @limit = @limit - @@rowcount;

if @limit > 0
  ${pick(n, { top: "@limit", index: "_Expiry", where: expired("r"), order: "r.expires_at" }).replaceAll("\n", "\n  ")}

-- visible_at already holds the end of the lease plus the back-off, so reaper and claim come to the same time
update ${n.state}
set status = case when p.dies = 1 then ${status.dead} else ${status.held} end,
  attempt = ${s}.attempt + p.lost, crashes = ${s}.crashes + p.lost, owner = null, locked_until = null, passes = null,
  last_error = case
    when ${s}.expires_at <= @now then ${unicodeLiteral(reasons.expired)}
    else ${unicodeLiteral(reasons.leaseExpired)}
  end,
  error_group = case when ${s}.expires_at <= @now then ${literal(reasonGroup("expired"))} else ${literal(reasonGroup("leaseExpired"))} end,
  last_attempt_at = coalesce(${s}.locked_until, ${s}.last_attempt_at),
  died_at = case when p.dies = 1 then @now else ${s}.died_at end
${outputChanged("@reaped")}
from @picked p, ${n.state} with (${lockRow})
where ${s}.seq = p.seq and ${s}.status = p.status and ((${leaseEnded(s)}) or (${expired(s)}))
${seekEach};

${recordLost(n, "@reaped")}

${leavePartition(n, "@reaped", `@blocks = 0 and c.keyed = 1 and c.status = ${status.dead}`)}

if @blocks = 0 and exists (select 1 from ${partitionQueueTable(n)} q with (${readPast}))
  ${leaveDead(n).replaceAll("\n", "\n  ")}`)}

if ${hasChanges(n)}
  exec ${n.object("_ApplyPartitionChanges")};

select r.seq, k.*,
  case when r.status <> ${status.dead} then 'reaped' when r.expires_at <= @now then 'expired' else 'exhausted' end as verdict
from @reaped r
cross apply ${keyOf(n, "r.seq")} k ${seekEach};`;
}

/** Each chosen row is tested again where it is locked: another process may be telling of it by then. */
export function expireDead(n: QueueNames): string {
  const s = stateTable(n);
  const expired = unicodeLiteral(reasons.expired);
  const saysNothing = (t: string) =>
    `charindex(${expired} ${binary}, coalesce(${t}.last_error, N'') ${binary}) = 0`;
  const untold = (t: string) =>
    `${t}.status = ${status.dead} and ${t}.expires_at <= @now and ((${t}.locked_until is null and ${saysNothing(t)}) or ${t}.locked_until <= @now)`;
  return `${prepareLease(n)}
declare @expired table (seq bigint not null primary key);

update ${n.state}
set owner = @owner, locked_until = @lease_end,
  last_error = case when ${saysNothing(s)} then ${expired} + coalesce(${unicodeLiteral(beforeThat)} + ${s}.last_error, N'') else ${s}.last_error end
output inserted.seq into @expired (seq)
from (
  select top (@limit) r.seq
  from ${pickFrom(n, "_Dead")}
  where ${untold("r")} and ${isWhole("r")}
  order by r.seq
) p, ${n.state} with (forceseek, ${skipLocked})
where ${s}.seq = p.seq and ${untold(s)} ${seekEach};

select e.seq, k.*
from @expired e
cross apply ${keyOf(n, "e.seq")} k ${seekEach};`;
}
