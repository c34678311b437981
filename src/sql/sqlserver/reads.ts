import { status } from "../dialect.js";
import { createdColumn, type QueueNames } from "../names.js";
import { heldByPause, readPauses } from "./controls.js";
import { addMs, asBit, asInt, attemptsTable, binary, doneTable } from "./expressions.js";
import { mayBringHeads } from "./partitions.js";
import {
  claimable,
  countFreely,
  isKeyOf,
  keyOf,
  pickFrom,
  readPast,
  readShortly,
  rowByRow,
  rowOf,
  withMessage,
  withState,
} from "./procedure.js";

export const resolve = (n: QueueNames) =>
  n.kind === "inbox"
    ? `select m.seq, m.source, m.message_id
from openjson(@items) with (source nvarchar(255), message_id nvarchar(255)) i
inner join ${n.message} m with (forceseek)
  on m.source = i.source ${binary} and m.message_id = i.message_id ${binary};`
    : `select m.seq, m.id
from openjson(@items) with (id uniqueidentifier) i
inner join ${n.message} m with (forceseek) on m.id = i.id;`;

export const get = (n: QueueNames) => `${readShortly}
select ${rowOf("k.seq")}
from ${n.message} k with (forceseek)
${withState(n, "k.seq")}
${withMessage(n, "k.seq")}
-- the state before the done row: an acknowledgement deletes the one and inserts the other
where ${isKeyOf(n, "k")} ${rowByRow};`;

export const attempts = (n: QueueNames) => `${readShortly}
select a.attempt, a.ended_at, a.worker, a.error
from ${n.message} m with (forceseek)
inner join ${attemptsTable(n)} a with (forceseek) on a.seq = m.seq
where ${isKeyOf(n)}
order by a.number;`;

/** The time from which a message's age counts. */
const ageFrom = (n: QueueNames) =>
  `case when s.status = ${status.dead} then s.died_at else m.${createdColumn(n)} end`;

/** Every unfinished message has a state row: those of a state are found there, without the done ones. */
const listed = (n: QueueNames) => `(
  select m.seq from ${n.message} m
  where @status is null and @resolution is null and m.seq > @after_seq
  union all
  select s.seq from ${n.state} s
  where @status <> ${status.done} and @resolution is null and s.seq > @after_seq and s.status in (@status, @status_2, @status_3)
  union all
  select d.seq from ${doneTable(n)} d
  where (@status = ${status.done} or @resolution is not null) and d.seq > @after_seq and (@resolution is null or d.resolution = @resolution)
)`;

// Recompiled each time, so that the plan knows the parameters' values: it has one part of the list, and a filter on Dead uses
// its index.
export const list = (n: QueueNames) => `${readShortly}
declare @until datetime2(3) = ${addMs(n, "@now", "-@older_than_ms")};
declare @since datetime2(3) = ${addMs(n, "@now", "-@newer_than_ms")};

select top (@limit) ${rowOf("w.seq")}
from ${listed(n)} w
${withState(n, "w.seq")}
${withMessage(n, "w.seq")}
where (@status is null or coalesce(s.status, ${status.done}) in (@status, @status_2, @status_3))
  and (@leased is null or ${asInt("s.locked_until is not null")} = @leased)
  and (@topic is null or m.topic = @topic ${binary})
  and (@source is null or exists (select 1 from ${keyOf(n, "w.seq")} k where k.source = @source ${binary}))
  and (@error is null or charindex(@error ${binary}, coalesce(s.last_error, d.last_error) ${binary}) > 0)
  and (@error_group is null or coalesce(s.error_group, '') = @error_group)
  and (@until is null or ${ageFrom(n)} <= @until)
  and (@since is null or ${ageFrom(n)} >= @since)
order by w.seq
option (recompile);`;

export function stats(n: QueueNames): string {
  const unfinished = `${status.ready}, ${status.processing}, ${status.blocked}`;
  return `${countFreely}
${readPauses(n)}

-- an apply, because a group may not be made by a subquery; without pauses it looks at no message
select s.status, ${asBit("s.locked_until is not null")} as leased, ${asBit("s.attempt > 0")} as retried,
  h.paused, count_big(*) as [count], sum(cast(${asInt(claimable("s"))} as bigint)) as due,
  datediff_big(millisecond, min(case when ${claimable("s")} then coalesce(s.reclaimable_at, s.visible_at) end), @now) as oldest_due_ms,
  sum(cast(${asInt(`s.status = ${status.dead} and s.expires_at <= @now`)} as bigint)) as expired, cast(null as varchar(10)) as resolution
from ${n.state} s
cross apply (
  select cast(case
    when @pauses = 0 or s.status not in (${unfinished}) then 0
    when ${heldByPause(n, "s")} = 1 then 1
    else 0
  end as bit) as paused
) h
group by s.status, ${asInt("s.locked_until is not null")}, ${asInt("s.attempt > 0")}, h.paused
union all
select ${status.done}, 0, 0, 0, count_big(*), 0, null, 0, d.resolution ${binary}
from ${doneTable(n)} d
group by d.resolution;`;
}

/** A claimable message since `coalesce(reclaimable_at, visible_at)`; no index has that, so it reads the unfinished messages. */
export const oldestDue = (n: QueueNames) => `${countFreely}
${readPauses(n)}

select datediff_big(millisecond, min(coalesce(s.reclaimable_at, s.visible_at)), @now) as oldest_due_ms
from ${n.state} s
where ${claimable("s")} and (@pauses = 0 or ${heldByPause(n, "s")} is null);`;

/** Returns 1 when a claim would find a message. It skips locked rows like a claim, so it neither waits nor holds others up. */
export const due = (n: QueueNames) => `${readPauses(n)}
if exists (select 1 from @controls c where c.scope = N'queue') return 0;
if @pauses = 0 and exists (
  select 1 from ${n.state} r with (forceseek, ${readPast}) where ${claimable("r")}
) return 1;
-- a state under any lock is skipped: its message may be locked, too
if @pauses = 1 and exists (select 1 from ${pickFrom(n)} where ${claimable("r")} and ${heldByPause(n, "r")} is null) return 1;
if ${mayBringHeads(n)} return 1;
return 0;`;
