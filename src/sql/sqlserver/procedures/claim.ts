import { crashesBeforeAlone } from "../../../queue/crashes.js";
import { status } from "../../dialect.js";
import { literal } from "../../literal.js";
import type { QueueNames } from "../../names.js";
import { reasonGroup, reasons } from "../../reasons.js";
import { changedTable, outputChanged, pick, pickedTable, recordLost } from "../attempts.js";
import { controlsTable, isPaused } from "../controls.js";
import { addMs, asInt, backoffSql, prepareBackoff, unicodeLiteral } from "../expressions.js";
import { hasChanges, leavePartition } from "../partitions.js";
import { atomically, indented, isLost, lockRow, prepareLease, seekEach, stateTable } from "./procedure.js";
import { rowOf, withMessage } from "./rows.js";

export function claim(n: QueueNames): string {
  const s = stateTable(n);
  const visible = (from: number) => `r.status = ${from} and r.visible_at <= @now`;
  const order = "r.visible_at, r.seq";
  const isSuspect = `r.crashes + ${asInt(isLost("r"))} >= ${crashesBeforeAlone}`;
  const suspects = `${visible(status.held)} and ${isSuspect}`;
  return `if ${isPaused(n)}
begin
  select cast(null as bigint) as seq, 'paused' as verdict;
  return;
end

${prepareLease(n)}
${prepareBackoff}
${pickedTable}
${changedTable("@claimed")}
declare @verdict varchar(10) = 'claimed';

if ${hasChanges(n)}
  exec ${n.object("_ApplyPartitionChanges")};

${atomically(`-- a message with two crashes is claimed alone
${pick(n, { top: "1", index: "_Held", where: suspects, order })}

if @@rowcount = 0
begin
  -- messages that come back from a worker were the first of the queue when they were claimed, and are again
${indented(pick(n, { top: "@limit", index: "_Held", where: visible(status.held), order }))}

  set @limit = @limit - @@rowcount;

  if @limit > 0
${indented(indented(pick(n, { top: "@limit", index: "_Ready", where: visible(status.ready), order })))}
end

-- the condition is repeated: where UPDLOCK does not lock, another claimer may have taken the row by now
update ${n.state}
set status = case when p.dies = 1 then ${status.dead} else ${status.held} end,
  attempt = ${s}.attempt + p.lost, crashes = ${s}.crashes + p.lost,
  owner = case when p.dies = 0 then @owner end, locked_until = case when p.dies = 0 then @lease_end end,
  due_since = ${s}.visible_at,
  visible_at = ${addMs(n, "@lease_end", `\n    ${backoffSql(`(${s}.attempt + p.lost + 1)`, `${s}.seq`)}`)},
  last_error = case
    when ${s}.expires_at <= @now then ${unicodeLiteral(reasons.expired)}
    when p.lost = 1 then ${unicodeLiteral(reasons.leaseExpired)}
    else ${s}.last_error
  end,
  error_group = case
    when ${s}.expires_at <= @now then ${literal(reasonGroup("expired"))} when p.lost = 1 then ${literal(reasonGroup("leaseExpired"))} else ${s}.error_group
  end,
  died_at = case when p.dies = 1 then @now else ${s}.died_at end
${outputChanged("@claimed")}
from @picked p, ${n.state} with (${lockRow})
where ${s}.seq = p.seq and ${s}.status = p.status and ${s}.visible_at <= @now
${seekEach};

${recordLost(n, "@claimed")}

${leavePartition(n, "@claimed", `@blocks = 0 and c.keyed = 1 and c.status = ${status.dead}`)}

if exists (select 1 from ${controlsTable(n)} k) set @verdict = 'controlled';

-- read before the commit: a claim whose rows cannot be returned is undone. No other transaction can have changed these
-- messages and not ended yet, because it would have locked their states first.
if @verdict = 'controlled' and not exists (select 1 from @claimed)
  select cast(null as bigint) as seq, @verdict as verdict;
else
  select ${rowOf("    ")},
    case when c.status = ${status.held} then @verdict when c.expires_at <= @now then 'expired' else 'exhausted' end as verdict
  from @claimed c
  inner join ${n.state} s with (forceseek) on s.seq = c.seq
  ${withMessage(n, "c.seq")}
  order by c.seq ${seekEach};`)}`;
}
