import { status } from "../dialect.js";
import { createdColumn, type QueueNames } from "../names.js";
import { hasStatus } from "../views.js";
import { appliesTo, controlsTable, isPaused, mayFree } from "./controls.js";
import { addMs, asBit, asInt, binary } from "./expressions.js";
import { attemptsTable } from "./history.js";
import { mayBringHeads } from "./partitions.js";
import { isKeyOf, keyIndex, keyOf, readFreely, readPast, rowOf, seekEach, withMessage } from "./procedure.js";

export const resolve = (n: QueueNames) =>
  n.kind === "inbox"
    ? `select m.seq, m.source, m.message_id
from openjson(@items) with (source nvarchar(255), message_id nvarchar(255)) i
inner join ${n.message} m with (${keyIndex(n)}, forceseek)
  on m.source = i.source ${binary} and m.message_id = i.message_id ${binary} ${seekEach};`
    : `select m.seq, m.id
from openjson(@items) with (id uniqueidentifier) i
inner join ${n.message} m with (${keyIndex(n)}, forceseek) on m.id = i.id ${seekEach};`;

export const get = (n: QueueNames) => `${readFreely}
select ${rowOf()}
from ${n.message} k with (${keyIndex(n)}, forceseek)
inner join ${n.state} s with (forceseek) on s.seq = k.seq
${withMessage(n, "k.seq")}
where ${isKeyOf(n, "k")} ${seekEach};`;

export const attempts = (n: QueueNames) => `${readFreely}
select a.attempt, a.ended_at, a.worker, a.error
from ${n.message} m with (${keyIndex(n)}, forceseek)
inner join ${attemptsTable(n)} a with (forceseek) on a.seq = m.seq
where ${isKeyOf(n)}
order by a.number ${seekEach};`;

/** The time from which a message's age counts. */
const ageFrom = (n: QueueNames) =>
  `case when s.status = ${status.dead} then s.died_at else m.${createdColumn(n)} end`;

// Recompiled each time, so that the plan knows the parameters' values: a filter on Dead then uses its index.
export const list = (n: QueueNames) => `${readFreely}
declare @until datetime2(3) = ${addMs(n, "@now", "-@older_than_ms")};
declare @since datetime2(3) = ${addMs(n, "@now", "-@newer_than_ms")};

select top (@limit) ${rowOf()}
from ${n.state} s
${withMessage(n, "s.seq")}
where s.seq > @after_seq
  and (@status is null or ${hasStatus("s", ["@status", "@status_2", "@status_3", "@status_4", "@status_5"])})
  and (@ended_as is null or s.ended_as = @ended_as)
  and (@leased is null or ${asInt("s.locked_until is not null")} = @leased)
  and (@topic is null or m.topic = @topic ${binary})
  and (@source is null or exists (select 1 from ${keyOf(n, "s.seq")} k where k.source = @source ${binary}))
  and (@error is null or charindex(@error ${binary}, s.last_error ${binary}) > 0)
  and (@error_group is null or coalesce(s.error_group, '') = @error_group)
  and (@until is null or ${ageFrom(n)} <= @until)
  and (@since is null or ${ageFrom(n)} >= @since)
order by s.seq
option (recompile);`;

/** A condition: a topic or a source is paused. */
const hasPauses = (n: QueueNames) =>
  `exists (select 1 from ${controlsTable(n)} c where c.paused = 1 and c.scope <> N'queue')`;

/**
 * 1 for the message of the state `s` when a pause of its topic or source holds it, else null. TOP keeps it a query of each state: as
 * a join of all of them, it would have no number to seek the message by.
 */
const held = (n: QueueNames) => `(
      select top (1) 1 from ${keyOf(n, "s.seq")} m inner join ${controlsTable(n)} c on ${appliesTo()}
      where c.paused = 1 and c.scope <> N'queue'
    )`;

export function stats(n: QueueNames): string {
  const due = `s.visible_at <= @now and s.status in (${status.ready}, ${status.held})`;
  return `${readFreely}
declare @paused bit = ${asInt(isPaused(n))};
declare @pauses bit = ${asInt(hasPauses(n))};

-- an apply, because a group may not be made by a subquery; without pauses of topics and sources it looks at no message
select s.status, ${asBit("s.locked_until is not null")} as leased, ${asBit("s.attempt > 0")} as retried,
  h.held, count_big(*) as [count], sum(cast(${asInt(due)} as bigint)) as due,
  datediff_big(millisecond, min(case when ${due} then s.visible_at end), @now) as oldest_due_ms,
  sum(cast(${asInt(`s.status = ${status.dead} and s.expires_at <= @now`)} as bigint)) as expired, @paused as paused, s.ended_as
from ${n.state} s
cross apply (
  select cast(case
    when @pauses = 0 or s.status not in (${status.ready}, ${status.held}, ${status.blocked}, ${status.parked}) then 0
    when ${held(n)} = 1 then 1
    else 0
  end as bit) as held
) h
group by s.status, ${asInt("s.locked_until is not null")}, ${asInt("s.attempt > 0")}, h.held, s.ended_as;`;
}

/**
 * One query for each filtered index: a condition on both statuses would use neither index. What a pause of a topic or a source holds is
 * left out: the claims park it within one poll.
 */
export function oldestDue(n: QueueNames): string {
  const oldest = (index: string, one: number) => `select (
    select top (1) s.visible_at
    from ${n.state} s with (index(${n.bare(index)}))
    where s.status = ${one} and s.visible_at <= @now and (@pauses = 0 or ${held(n)} is null)
    order by s.visible_at
  ) as visible_at`;
  return `${readFreely}
declare @pauses bit = ${asInt(hasPauses(n))};

select datediff_big(millisecond, min(d.visible_at), @now) as oldest_due_ms
from (
  ${oldest("_Ready", status.ready)}
  union all
  ${oldest("_Held", status.held)}
) d
where not ${isPaused(n)};`;
}

/** Returns 1 when a claim would find a message or may free one. It skips locked rows like a claim, so it neither waits nor holds others up. */
export function due(n: QueueNames): string {
  const any = (index: string, one: number) => `exists (
  select 1 from ${n.state} r with (index(${n.bare(index)}), ${readPast}) where r.status = ${one} and r.visible_at <= @now
)`;
  return `if ${isPaused(n)} return 0;
if ${any("_Ready", status.ready)} return 1;
if ${any("_Held", status.held)} return 1;
if ${mayBringHeads(n)} return 1;
if ${mayFree(n)} return 1;
return 0;`;
}
