import { crashesBeforeAlone } from "../../../queue/crashes.js";
import { status } from "../../dialect.js";
import { literal } from "../../literal.js";
import type { QueueNames } from "../../names.js";
import { reasonGroups, reasons } from "../../reasons.js";
import { lostTable, pickLost, recordLost } from "../attempts.js";
import { controlsTable, isPaused } from "../controls.js";
import { addMs, asInt, backoffSql, prepareBackoff, unicodeLiteral } from "../expressions.js";
import { callLeavePartition, pendingArrivalsTable, readPast } from "../partitions.js";
import {
  atomically,
  indented,
  isDying,
  isLost,
  pickFrom,
  prepareLease,
  seekEach,
  skipLocked,
  stateTable,
} from "./procedure.js";
import { inserted, leaseColumns, row } from "./rows.js";

const claimedTable = `declare @claimed table (
  seq bigint not null primary key,
  attempt int not null,
  expires_at datetime2(3) null,
  visible_at datetime2(3) not null,
  locked_until datetime2(3) null,
  owner uniqueidentifier null,
  crashes int not null,
  status tinyint not null
);`;

export function claim(n: QueueNames): string {
  const s = stateTable(n);
  const lost = isLost(s);
  const dies = isDying(s);
  const attempts = `(${s}.attempt + ${asInt(lost)} + 1)`;
  // The condition is repeated outside, where the row is locked: another claimer may have taken it by then.
  const take = (top: string, index: string, from: number, which = "") => `update ${n.state}
set status = case when ${dies} then ${status.dead} else ${status.held} end,
  attempt = ${s}.attempt + ${asInt(lost)},
  crashes = ${s}.crashes + ${asInt(lost)},
  owner = case when ${dies} then null else @owner end,
  locked_until = case when ${dies} then null else @lease_end end,
  visible_at = ${addMs("@lease_end", backoffSql(attempts, `${s}.seq`))},
  last_error = case
    when ${s}.expires_at <= @now then ${unicodeLiteral(reasons.expired)}
    when ${lost} then ${unicodeLiteral(reasons.leaseExpired)}
    else ${s}.last_error
  end,
  error_group = case
    when ${s}.expires_at <= @now then ${literal(reasonGroups.expired)}
    when ${lost} then ${literal(reasonGroups.leaseExpired)}
    else ${s}.error_group
  end,
  died_at = case when ${dies} then @now else ${s}.died_at end
output ${inserted(leaseColumns)}
into @claimed (${leaseColumns.join(", ")})
from (
  select top (${top}) r.seq
  from ${pickFrom(n, index)}
  where r.status = ${from} and r.visible_at <= @now${which}
  order by r.visible_at, r.seq
) p, ${n.state} with (${skipLocked})
where ${s}.seq = p.seq and ${s}.status = ${from} and ${s}.visible_at <= @now
${seekEach};`;
  const isSuspect = ` and r.crashes + ${asInt(isLost("r"))} >= ${crashesBeforeAlone}`;
  return `if ${isPaused(n)}
begin
  select cast(null as bigint) as seq, 'paused' as verdict;
  return;
end

${prepareLease}
${prepareBackoff}
${claimedTable}
${lostTable}
declare @verdict varchar(10) = 'claimed';

if exists (select 1 from ${pendingArrivalsTable(n)} a with (${readPast})) exec ${n.object("_EnqueueArrivals")};

${atomically(`${pickLost(
  n,
  `r.status = ${status.held} and r.visible_at <= @now and ${isLost("r")}`,
  `case when r.crashes + 1 >= ${crashesBeforeAlone} then 0 else 1 end, r.visible_at, r.seq`,
)}

-- a message with two crashes is claimed alone
if exists (
  select 1 from ${n.state} r with (index(${n.bare("_Held")}), ${readPast})
  where r.status = ${status.held} and r.visible_at <= @now${isSuspect}
)
${indented(take("1", "_Held", status.held, isSuspect))}

if not exists (select 1 from @claimed)
begin
  -- messages that come back from a worker were the first of the queue when they were claimed, and are again
${indented(take("@limit", "_Held", status.held))}

  set @limit = @limit - @@rowcount;

  if @limit > 0
${indented(indented(take("@limit", "_Ready", status.ready)))}
end

${recordLost(n, "@claimed")}

${callLeavePartition(n, "@claimed", `@blocks = 0 and c.status = ${status.dead}`)}`)}

if exists (select 1 from ${controlsTable(n)} k) set @verdict = 'controlled';

if @verdict = 'controlled' and not exists (select 1 from @claimed)
begin
  select cast(null as bigint) as seq, @verdict as verdict;
  return;
end

select ${row(n, "c")},
  case
    when c.status = ${status.held} then @verdict
    when c.expires_at <= @now then 'expired'
    else 'exhausted'
  end as verdict
from @claimed c
inner join ${n.state} s on s.seq = c.seq
inner join ${n.message} m on m.seq = c.seq
order by c.seq
${seekEach};`;
}
