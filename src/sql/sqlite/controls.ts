import { status } from "../dialect.js";
import type { SqlStatement } from "../driver.js";
import type { QueueNames } from "../names.js";
import { returnedBatch } from "../store-options.js";
import { controlsTable, dueSince, now, sentSeqs } from "./expressions.js";
import { steps } from "./steps.js";

/**
 * A row is a control: a pause, a limit, both, or neither when it has ended and its parked messages are being returned. Numbers
 * are never used again: they name the limits that a message has passed.
 */
export const createControls = (n: QueueNames): readonly string[] => [
  `create table ${controlsTable(n)} (
  id integer primary key autoincrement,
  scope text not null,
  -- the topic or source; empty for the whole queue
  name text not null,
  paused integer not null,
  per_second real,
  -- how many messages the limit lets pass, as of refilled_at
  tokens real not null default 1,
  refilled_at integer not null,
  who text not null,
  changed_at integer not null,
  unique (scope, name)
) strict`,
  `create index ${n.bare("Parked")} on ${n.state} (parked_by, visible_at, seq) where status = ${status.parked}`,
];

/** A value: the verdict of a claim on messages that it leases. */
export const controlVerdict = (n: QueueNames): string =>
  `(select case when max(c.scope = 'queue' and c.paused) then 'paused' when count(*) > 0 then 'controlled' end from ${controlsTable(n)} c)`;

/** A condition: the whole queue is paused. */
export const isPaused = (n: QueueNames): string =>
  `exists (select 1 from ${controlsTable(n)} c where c.scope = 'queue' and c.paused)`;

const appliesTo = (n: QueueNames) =>
  `case c.scope when 'topic' then c.name = m.topic when 'source' then ${n.kind === "inbox" ? "c.name = m.source" : "false"} else true end`;

/** A condition: a topic or a source is paused. */
const hasPauses = (n: QueueNames) =>
  `exists (select 1 from ${controlsTable(n)} c where c.paused and c.scope <> 'queue')`;

/** A condition: a pause of its topic or source holds the message `m`. Without such pauses no message is looked at. */
export const isHeld = (n: QueueNames, message: string): string =>
  `(${hasPauses(n)} and exists (select 1 from ${message} join ${controlsTable(n)} c on c.paused and c.scope <> 'queue' and ${appliesTo(n)}))`;

/** A condition: a pause holds the message `m`. */
export const holdsMessage = (n: QueueNames): string =>
  `exists (select 1 from ${controlsTable(n)} c where c.paused and ${appliesTo(n)})`;

const hasParked = (n: QueueNames, control: string) =>
  `exists (select 1 from ${n.state} where status = ${status.parked} and parked_by = ${control})`;

/** A condition: a claim may free a parked message. */
export const mayFree = (n: QueueNames): string =>
  `exists (select 1 from ${controlsTable(n)} c where not c.paused and ${hasParked(n, "c.id")})`;

/** A pause parks, whatever the message has passed. Each limit is passed once, in any order. */
const park = (n: QueueNames) => `update ${n.state} as s
set status = ${status.parked}, parked_by = p.control, owner = null, locked_until = null,
  visible_at = ${dueSince(n)}
from (
  select m.seq, (
      select c.id
      from ${controlsTable(n)} c
      where ${appliesTo(n)} and (c.paused or (c.per_second is not null and instr(coalesce(t.passes, ''), ',' || c.id || ',') = 0))
      order by c.paused desc, c.id
      limit 1
    ) as control
  from json_each(:items) i
  cross join ${n.state} t on t.seq = i.value
  cross join ${n.message} m on m.seq = i.value
) p
where s.seq = p.seq and p.control is not null and s.owner = :owner`;

/** At most the tokens of one second. */
const refill = (n: QueueNames) => `update ${controlsTable(n)}
set tokens = min(max(1.0, per_second), tokens + per_second * max(0, ${now} - refilled_at) / 1000.0), refilled_at = ${now}
where not paused and per_second is not null`;

/** A condition on a parked message. */
const isLimited = (n: QueueNames) =>
  `parked_by in (select id from ${controlsTable(n)} where per_second is not null)`;

/** Walks the parked messages of each control in their order, one by one: SQLite has no limit per group. */
const free = (n: QueueNames) => `update ${n.state}
set status = iif(crashes > 0, ${status.held}, ${status.ready}),
  -- a pause that has ended is no pass
  passes = iif(${isLimited(n)}, coalesce(passes, ',') || parked_by || ',', passes)
where seq in (
  with recursive freed (control, most, seq, visible_at) as (
    select id, iif(per_second is null, ${returnedBatch}, min(cast(tokens as integer), :limit)), -1, -1
    from ${controlsTable(n)}
    where not paused
    union all
    select f.control, f.most - 1, s.seq, s.visible_at
    from freed f
    cross join ${n.state} s on s.seq = (
      select seq from ${n.state}
      where status = ${status.parked} and parked_by = f.control and (visible_at, seq) > (f.visible_at, f.seq)
      order by visible_at, seq
      limit 1
    )
    where f.most > 0
  )
  select seq from freed
)
returning seq, iif(${isLimited(n)}, parked_by, null) as control`;

const takeTokens = (n: QueueNames) => `update ${controlsTable(n)}
set tokens = tokens - (select count(*) from json_each(:rows) where json_extract(value, '$.control') = ${controlsTable(n)}.id)
where not paused and per_second is not null`;

const isEnded = "not paused and per_second is null";

const result = (n: QueueNames) => `select
  (select json_group_array(seq) from ${n.state} where seq in ${sentSeqs} and owner = :owner) as kept,
  json_array_length(:rows) as freed,
  (
    select count(*) from json_each(:rows)
    where json_extract(value, '$.control') is null
  ) as returned,
  (select count(*) from ${controlsTable(n)} where ${isEnded}) as ending,
  (
    select min(max(0, 1 - tokens) / per_second * 1000)
    from ${controlsTable(n)} c
    where not paused and per_second is not null and ${hasParked(n, "c.id")}
  ) as wait_ms`;

export const applyControls = (n: QueueNames): SqlStatement =>
  steps(
    "apply controls",
    park(n),
    refill(n),
    free(n),
    takeTokens(n),
    `delete from ${controlsTable(n)} where ${isEnded} and not ${hasParked(n, `${controlsTable(n)}.id`)}`,
    `update ${n.state} set passes = null where seq in ${sentSeqs} and owner = :owner and passes is not null`,
    result(n),
  );
