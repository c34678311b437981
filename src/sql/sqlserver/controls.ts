import { status } from "../dialect.js";
import type { SqlStatement } from "../driver.js";
import type { QueueNames } from "../names.js";
import { returnedBatch } from "../store-options.js";
import { binary } from "./expressions.js";
import {
  atomically,
  columns,
  indented,
  isWhole,
  keyOf,
  lockRow,
  lockTarget,
  owned,
  type Procedure,
  pickFrom,
  procedure,
  readFreely,
  readPast,
  seekEach,
  seqs,
  stateTable,
} from "./procedure.js";
import { callProcedure, signatures } from "./procedure-calls.js";

/** Pauses and limits; empty nearly always. */
export const controlsTable = (n: QueueNames): string => n.object("Controls");

/**
 * A row is a control: a pause, a limit, both, or neither when it has ended and its parked messages are being returned. Numbers
 * are never used again: they name the limits that a message has passed.
 */
export const createControls = (n: QueueNames): readonly string[] => [
  `create table ${controlsTable(n)} (
  id bigint identity(1, 1) not null,
  scope nvarchar(10) ${binary} not null,
  -- the topic or source; empty for the whole queue
  name nvarchar(255) ${binary} not null,
  paused bit not null,
  per_second float null,
  -- how many messages the limit lets pass, as of refilled_at
  tokens float not null constraint ${n.bare("Controls_Tokens")} default 1,
  refilled_at datetime2(3) not null,
  who nvarchar(255) not null,
  changed_at datetime2(3) not null,
  constraint ${n.bare("Controls_PK")} primary key clustered (id)
)`,
  // with what a claim asks for, so that it locks the key alone and not the row as well
  `create unique index ${n.bare("Controls_Key")} on ${controlsTable(n)} (scope, name) include (paused)`,
  `create index ${n.bare("_Parked")} on ${n.state} (parked_by, visible_at, seq) where status = ${status.parked}`,
];

/** A condition: the whole queue is paused. The pause may not be skipped while another transaction changes it. */
export const isPaused = (n: QueueNames): string =>
  `exists (
  select 1 from ${controlsTable(n)} c with (index(${n.bare("Controls_Key")}), forceseek)
  where c.scope = N'queue' and c.name = N'' and c.paused = 1
)`;

/** A condition: a claim may free a parked message. */
export const mayFree = (n: QueueNames): string => `exists (
  select 1 from ${controlsTable(n)} c with (${readPast})
  where c.paused = 0 and exists (
    select 1 from ${n.state} r with (index(${n.bare("_Parked")}), forceseek, ${readPast})
    where r.status = ${status.parked} and r.parked_by = c.id
  )
)`;

export const applyControls = (n: QueueNames): SqlStatement =>
  callProcedure(n, "apply controls", "ApplyControls", signatures.ApplyControls, { given_now: "@now" });

/** A condition: the control `c` is for the message `m`, which has a topic and may have a source. */
export const appliesTo = (hasSource = true) =>
  `(c.scope = N'queue' or (c.scope = N'topic' and c.name = m.topic)${
    hasSource ? " or (c.scope = N'source' and c.name = m.source)" : ""
  })`;

/** A pause parks, whatever the message has passed. Each limit is passed once, in any order. */
const park = (n: QueueNames) => {
  const s = stateTable(n);
  return `insert into @parked (seq, control)
select p.seq, p.control
from (
  select o.seq, (
      select top (1) c.id
      from @controls c
      where ${appliesTo()} and (c.paused = 1 or (
        c.per_second is not null and charindex(',' + cast(c.id as varchar(20)) + ',', coalesce(o.passes, '')) = 0
      ))
      order by c.paused desc, c.id
    ) as control
  from @owned o
  cross apply ${keyOf(n, "o.seq")} m
) p
where p.control is not null ${seekEach};

update ${n.state}
set status = ${status.parked}, parked_by = p.control, owner = null, locked_until = null,
  visible_at = ${s}.due_since
from @parked p, ${n.state} with (${lockRow})
where ${s}.seq = p.seq and ${owned(s)} ${seekEach};`;
};

/** A condition: the control @id has parked messages. */
const isLeft = (n: QueueNames, hints = "") =>
  `exists (
    select 1 from ${n.state} r with (index(${n.bare("_Parked")}), forceseek${hints})
    where r.status = ${status.parked} and r.parked_by = @id
  )`;

/** A message with crashes is returned as held, where a claim looks for those that must be handled alone. */
const free = (n: QueueNames) => {
  const s = stateTable(n);
  return `update ${n.state}
set status = case when ${s}.crashes > 0 then ${status.held} else ${status.ready} end,
  -- a pause that has ended is no pass
  passes = case
    when @per_second is null then ${s}.passes else coalesce(${s}.passes, ',') + cast(@id as varchar(20)) + ','
  end
from (
  select top (@most) r.seq
  from ${pickFrom(n, "_Parked")}
  where r.status = ${status.parked} and r.parked_by = @id and ${isWhole("r")}
  order by r.visible_at, r.seq
) p, ${n.state} with (${lockRow})
where ${s}.seq = p.seq and ${s}.status = ${status.parked} ${seekEach};

set @count = @@rowcount;
set @freed = @freed + @count;`;
};

const freeNext = (n: QueueNames) => `set @next = null;
select top (1) @next = c.id, @per_second = c.per_second, @tokens = c.tokens, @refilled_at = c.refilled_at
from @controls c
where c.id > @id and c.paused = 0
order by c.id;
if @next is null break;
set @id = @next;
set @burst = case when @per_second > 1 then @per_second else 1 end;
set @elapsed_ms = case when @refilled_at < @now then datediff_big(millisecond, @refilled_at, @now) else 0 end;
set @tokens = @tokens + @per_second * @elapsed_ms / 1000;
if @tokens > @burst set @tokens = @burst; -- at most the tokens of one second
set @most = case when @per_second is null then ${returnedBatch} when @tokens < @limit then cast(floor(@tokens) as int) else @limit end;

${free(n)}

if @per_second is null
begin
  set @returned = @returned + @count;
  -- skips nothing: a message that is left without its control would stay parked
  if ${isLeft(n)} set @ending = @ending + 1;
  else delete from ${controlsTable(n)} with (${lockTarget}) where id = @id;
end
else
begin
  set @tokens = @tokens - @count;
  update ${controlsTable(n)} with (${lockTarget}) set tokens = @tokens, refilled_at = @now where id = @id;
  set @until_token = case when @tokens < 1 then (1 - @tokens) / @per_second * 1000 else 0 end;
  if (@wait_ms is null or @wait_ms > @until_token) and ${isLeft(n, `, ${readPast}`)} set @wait_ms = @until_token;
end`;

/**
 * While there are controls, claims decide one after another: each locks them before it parks. So none parks a message under a
 * control that has just been deleted. A claim locks the states of its own messages before the controls: whoever holds the
 * controls waits for no row, so an open transaction does not hold up the claims of others. See docs/decisions/0023.
 */
const apply = (n: QueueNames) => {
  const s = stateTable(n);
  return `declare @now datetime2(3);
declare @id bigint = 0, @next bigint, @per_second float, @tokens float, @refilled_at datetime2(3);
declare @burst float, @elapsed_ms float, @most int, @count int, @until_token float;
declare @kept nvarchar(max), @freed int = 0, @returned int = 0, @ending int = 0, @wait_ms float;
declare @controls table (
  id bigint not null primary key, scope nvarchar(10) ${binary} not null, name nvarchar(255) ${binary} not null,
  paused bit not null, per_second float null, tokens float not null, refilled_at datetime2(3) not null
);
declare @owned table (seq bigint not null primary key, passes varchar(max) null);
declare @parked table (seq bigint not null primary key, control bigint not null);

${atomically(`insert into @owned (seq, passes)
select s.seq, s.passes
from ${seqs}
inner join ${n.state} s with (${lockRow}) on s.seq = i.seq
where ${owned("s")} ${seekEach};

-- by the key, as an operator's change locks them: its key first, then its row
insert into @controls (id, scope, name, paused, per_second, tokens, refilled_at)
select c.id, c.scope, c.name, c.paused, c.per_second, c.tokens, c.refilled_at
from ${controlsTable(n)} c with (${controlKey(n)}, ${lockTarget})
order by c.scope, c.name;

set @now = coalesce(@given_now, sysutcdatetime());

${park(n)}

while 1 = 1
begin
${indented(freeNext(n))}
end

update ${n.state}
set passes = null
from @owned o, ${n.state} with (${lockRow})
where ${s}.seq = o.seq and ${owned(s)} and ${s}.passes is not null ${seekEach};

select @kept = N'[' + string_agg(cast(s.seq as nvarchar(max)), N',') + N']' from @owned o
inner join ${n.state} s with (forceseek) on s.seq = o.seq
where ${owned("s")} ${seekEach};`)}

select @kept as kept, @freed as freed, @returned as returned, @ending as ending, @wait_ms as wait_ms;`;
};

const readControls = (n: QueueNames) => `${readFreely}
select ${columns("c", ["id", "scope", "name", "paused", "per_second", "who", "changed_at"])}, (
    select count_big(*) from ${n.state} s with (index(${n.bare("_Parked")}), forceseek)
    where s.status = ${status.parked} and s.parked_by = c.id
  ) as parked
from ${controlsTable(n)} c
where @scope is null or (c.scope = @scope and c.name = @name)
order by c.id;`;

/** A key is locked before its row by everybody: a plan that scanned the few rows would lock the rows first. */
const controlKey = (n: QueueNames) => `index(${n.bare("Controls_Key")})`;

const isNamed = "scope = @scope and name = @name";

/** The key is locked before it is known to be missing, so that two calls do not both insert it. */
const put = (n: QueueNames) =>
  atomically(`update ${controlsTable(n)}
set paused = coalesce(@paused, paused), per_second = coalesce(@per_second, per_second), who = @who, changed_at = @now
from ${controlsTable(n)} with (${controlKey(n)}, forceseek, updlock, rowlock, serializable)
where ${isNamed};

if @@rowcount = 0
  insert into ${controlsTable(n)} (scope, name, paused, per_second, refilled_at, who, changed_at)
  values (@scope, @name, coalesce(@paused, 0), @per_second, @now, @who, @now);`);

/** Returns 1 when there was one. */
const end = (n: QueueNames) => `update ${controlsTable(n)}
set paused = case when @paused = 1 then 0 else paused end, per_second = case when @paused = 1 then per_second end,
  who = @who, changed_at = @now
from ${controlsTable(n)} with (${controlKey(n)}, ${lockRow})
where ${isNamed} and ((@paused = 1 and paused = 1) or (@paused = 0 and per_second is not null));

return @@rowcount;`;

export const controlProcedures = (n: QueueNames): readonly Procedure[] => [
  procedure(n, "ApplyControls", signatures.ApplyControls, apply(n)),
  procedure(n, "PutControl", signatures.PutControl, put(n)),
  procedure(n, "EndControl", signatures.EndControl, end(n)),
  procedure(n, "Controls", signatures.Controls, readControls(n), signatures.Controls),
];
