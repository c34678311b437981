import { status } from "../dialect.js";
import type { QueueNames } from "../names.js";
import { asInt, binary, controlsTable } from "./expressions.js";
import {
  atomically,
  claimable,
  columns,
  countFreely,
  keyOf,
  lockRow,
  lockTarget,
  type Procedure,
  pickFrom,
  procedure,
  rowByRow,
} from "./procedure.js";
import { parametersOf } from "./procedure-calls.js";

/** A row is a control: a pause, a limit or both. */
export const createControls = (n: QueueNames): string => `create table ${controlsTable(n)} (
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
  constraint ${n.bare("Controls_PK")} primary key clustered (scope, name)
)`;

/** A condition: the whole queue is paused. The pause may not be skipped while another transaction changes it. */
export const isPaused = (n: QueueNames): string =>
  `exists (
  select 1 from ${controlsTable(n)} c with (forceseek)
  where c.scope = N'queue' and c.name = N'' and c.paused = 1
)`;

/** A condition: the control `c` is for the message `m`, which has a topic and may have a source. */
export const appliesTo = (hasSource = true, c = "c") =>
  `(${c}.scope = N'queue' or (${c}.scope = N'topic' and ${c}.name = m.topic)${
    hasSource ? ` or (${c}.scope = N'source' and ${c}.name = m.source)` : ""
  })`;

const controlColumns = "scope, name, paused, per_second, tokens";

const declareControls = `declare @controls table (
  scope nvarchar(10) ${binary} not null, name nvarchar(255) ${binary} not null, paused bit not null,
  per_second float null, tokens float not null, primary key (scope, name)
);`;

/** Declares @controls with the pauses, and @pauses, which is 1 when there are any. */
export const readPauses = (n: QueueNames): string => `${declareControls}
insert into @controls (${controlColumns})
select ${columns("c", controlColumns)} from ${controlsTable(n)} c where c.paused = 1;
declare @pauses bit = ${asInt("exists (select 1 from @controls)")};`;

/**
 * 1 when one of @controls holds the message of the state `s`, else null; each is a pause. TOP keeps it a query of each state: as a
 * join of all of them, it would have no number to seek the message by.
 */
export const heldByPause = (n: QueueNames, s: string): string =>
  `(select top (1) 1 from ${keyOf(n, `${s}.seq`)} m inner join @controls c on ${appliesTo()})`;

const refilled = `tokens + per_second * ${asInt("refilled_at < @now").replace("1", "datediff_big(millisecond, refilled_at, @now)")} / 1000`;
const burst = "case when per_second > 1 then per_second else 1 end";
const isLimit = "c.per_second is not null";

/**
 * The parts of a claim that keep to pauses and limits. Limits are refilled and locked before any state, so their tokens are
 * exact. A claim that holds them waits for nothing else: it skips locked states. See docs/decisions/0020 and 0023.
 */
export const claimControls = (n: QueueNames) => ({
  declare: `${declareControls}
declare @limits int = 0, @wait_ms float;`,
  exist: `exists (select 1 from ${controlsTable(n)} c)`,
  /** Locks the limits. It may wait for another claim, so the clock is read afterwards. */
  lock: `select @limits = count(*)
from ${controlsTable(n)} c with (${lockTarget})
where c.per_second is not null;`,
  read: `update ${controlsTable(n)} with (${lockTarget})
set tokens = case -- at most those of one second
    when ${refilled} < ${burst}
      then ${refilled}
    else ${burst}
  end,
  refilled_at = case when refilled_at < @now then @now else refilled_at end
where per_second is not null;

insert into @controls (${controlColumns})
select ${columns("c", controlColumns)} from ${controlsTable(n)} c where c.paused = 1 or c.per_second is not null;`,
  /** A condition on a message `m`. The limit of the whole queue is left to `cut`: with it, this would walk past all messages. */
  lets: (dies: string) => `not exists (
    select 1 from @controls c
    where ${appliesTo()} and (c.paused = 1
      or (${isLimit} and c.tokens < 1 and c.scope <> N'queue' and ${asInt(dies)} = 0))
  )`,
  /** Leaves of each limit as many as it has tokens. What dies needs none. */
  cut: `delete from @picked
where seq in (
  select x.seq
  from (
    select m.seq, c.tokens, row_number() over (partition by c.scope, c.name order by m.visible_at, m.seq) as place
    from @picked m inner join @controls c on ${isLimit} and ${appliesTo()}
    where m.dies = 0
  ) x
  where x.place > floor(x.tokens)
);`,
  /** Takes a token of each limit for each claimed message. When nothing was claimed, @wait_ms is the time until a token that a due message waits for. */
  take: `if exists (select 1 from @controls c where ${isLimit})
begin
  update ${controlsTable(n)}
  set tokens = t.tokens - t.taken
  from (
    select c.scope, c.name, c.tokens, count(*) as taken
    from @changed k
    inner join @picked m on m.seq = k.seq
    inner join @controls c on ${isLimit} and ${appliesTo()}
    where k.status = ${status.ready}
    group by c.scope, c.name, c.tokens
  ) t, ${controlsTable(n)} with (${lockRow})
  where ${n.bare("Controls")}.scope = t.scope and ${n.bare("Controls")}.name = t.name;

  if not exists (select 1 from @changed)
    select @wait_ms = min((1 - c.tokens) / c.per_second * 1000)
    from @controls c
    where ${isLimit} and c.tokens < 1 and exists (
      select 1
      from ${pickFrom(n)}
      cross apply ${keyOf(n, "r.seq")} m
      where ${claimable("r")} and ${appliesTo()}
        and not exists (select 1 from @controls h where h.paused = 1 and ${appliesTo(true, "h")})
    ) ${rowByRow}; -- stops at the first message, and locks none behind it
end`,
});

const readControls = (n: QueueNames) => `${countFreely}
select ${columns("c", "scope, name, paused, per_second, who, changed_at")}, (
    select count_big(*) from ${n.state} s
    where s.status in (${status.ready}, ${status.blocked}) and s.locked_until is null
      and (select top (1) 1 from ${keyOf(n, "s.seq")} m where ${appliesTo()}) = 1
  ) as waiting
from ${controlsTable(n)} c
where @scope is null or (c.scope = @scope and c.name = @name)
order by c.changed_at, c.scope, c.name;`;

const isNamed = "scope = @scope and name = @name";
const readNamed = (n: QueueNames) => `exec ${n.object("_Controls")} @scope = @scope, @name = @name;`;

/** The key is locked before it is known to be missing, so that two calls do not both insert it. */
const put = (n: QueueNames) =>
  atomically(`update ${controlsTable(n)} with (updlock, rowlock, serializable)
set paused = coalesce(@paused, paused), per_second = coalesce(@per_second, per_second), who = @who, changed_at = @now
where ${isNamed};

if @@rowcount = 0
  insert into ${controlsTable(n)} (scope, name, paused, per_second, refilled_at, who, changed_at)
  values (@scope, @name, coalesce(@paused, 0), @per_second, @now, @who, @now);

${readNamed(n)}`);

const end = (n: QueueNames) =>
  atomically(`update ${controlsTable(n)} with (${lockTarget})
set paused = case when @paused = 1 then 0 else paused end, per_second = case when @paused = 1 then per_second end,
  who = @who, changed_at = @now
where ${isNamed} and ((@paused = 1 and paused = 1) or (@paused = 0 and per_second is not null));

if @@rowcount = 1
begin
  ${readNamed(n)}
  delete from ${controlsTable(n)} with (${lockTarget}) where ${isNamed} and paused = 0 and per_second is null;
end`);

export const controlProcedures = (n: QueueNames): readonly Procedure[] => [
  procedure(n, "Controls", readControls(n), parametersOf(n, "Controls")),
  procedure(n, "PutControl", put(n)),
  procedure(n, "EndControl", end(n)),
];
