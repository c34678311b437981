import { status } from "../dialect.js";
import { type SqlStatement, statement } from "../driver.js";
import type { QueueNames } from "../names.js";
import { returnedBatch } from "../store-options.js";
import { controlsTable, create } from "./expressions.js";

/**
 * A row is a control: a pause, a limit, both, or neither when it has ended and its parked messages are being returned. Numbers
 * are never used again: they name the limits that a message has passed.
 */
export const createControls = (n: QueueNames): readonly string[] => [
  `create table ${controlsTable(n)} (
  id bigint generated always as identity primary key,
  scope varchar(10) collate "C" not null,
  -- the topic or source; empty for the whole queue
  name varchar(255) collate "C" not null,
  paused boolean not null,
  per_second float8,
  -- how many messages the limit lets pass, as of refilled_at
  tokens float8 not null default 1,
  refilled_at timestamptz not null,
  who varchar(255) not null,
  changed_at timestamptz not null,
  constraint ${n.bare("_controls_key")} unique (scope, name)
)`,
  // Every other message is left out, and a claim changes none of its columns.
  `create index ${n.bare("_parked")} on ${n.state} (parked_by, visible_at, seq) where status = ${status.parked}`,
];

/** A CTE of one row: the verdict of a claim on messages that it leases. */
export const controlVerdict = (n: QueueNames): string => `control as materialized (
  select case when bool_or(c.scope = 'queue' and c.paused) then 'paused' when count(*) > 0 then 'controlled' end as verdict
  from ${controlsTable(n)} c
)`;

/** A condition: the whole queue is paused. */
export const isPaused = (n: QueueNames): string =>
  `exists (select from ${controlsTable(n)} c where c.scope = 'queue' and c.paused)`;

/** A condition: the control `c` has parked messages. */
const hasParked = (n: QueueNames): string =>
  `exists (select from ${n.state} r where r.status = ${status.parked} and r.parked_by = c.id)`;

/** A condition: a claim may free a parked message. */
export const mayFree = (n: QueueNames): string =>
  `exists (select from ${controlsTable(n)} c where not c.paused and ${hasParked(n)})`;

const appliesTo = (n: QueueNames) =>
  `case c.scope when 'topic' then c.name = m.topic when 'source' then ${n.kind === "inbox" ? "c.name = m.source" : "false"} else true end`;

/** A condition: a pause of its topic or source holds the message of the state `s`. Without such pauses no message is looked at. */
export const isHeld = (n: QueueNames): string =>
  `((select exists (select from ${controlsTable(n)} c where c.paused and c.scope <> 'queue')) and exists (
    select from ${n.message} m join ${controlsTable(n)} c on c.paused and c.scope <> 'queue' and ${appliesTo(n)} where m.seq = s.seq
  ))`;

/** A condition: a pause holds the message `m`. */
export const holdsMessage = (n: QueueNames): string =>
  `exists (select from ${controlsTable(n)} c where c.paused and ${appliesTo(n)})`;

/**
 * While there are controls, claims decide one after another: each locks them first. So none parks a message under a control
 * that has just been deleted.
 */
export const applyControlsFunction = (n: QueueNames): string =>
  create(
    n.object("_apply_controls"),
    "uuid, bigint[], integer, timestamptz",
    `(p_owner uuid, p_seqs bigint[], p_limit integer, p_now timestamptz,
  out kept text, out freed integer, out returned integer, out ending integer, out wait_ms float8)`,
    `declare
  v_now timestamptz;
  v_control record;
  v_tokens float8;
  v_most integer;
  v_count integer;
begin
  freed := 0;
  returned := 0;
  ending := 0;
  perform from ${controlsTable(n)} c order by c.id for update;
  v_now := coalesce(p_now, clock_timestamp());

  -- A pause parks, whatever the message has passed. Each limit is passed once, in any order.
  update ${n.state} s
  set status = ${status.parked}, parked_by = p.control, owner = null, locked_until = null,
    reclaimable_at = s.due_since
  from (
    select i.seq, (
        select c.id
        from ${controlsTable(n)} c
        where ${appliesTo(n)} and (c.paused or (c.per_second is not null and c.id <> all (coalesce(t.passes, '{}'))))
        order by c.paused desc, c.id
        limit 1
      ) as control
    from unnest(p_seqs) as i(seq)
    join ${n.state} t on t.seq = i.seq
    join ${n.message} m on m.seq = i.seq
  ) p
  where s.seq = p.seq and p.control is not null and s.owner = p_owner;

  for v_control in select c.* from ${controlsTable(n)} c where not c.paused order by c.id loop
    -- at most those of one second; only of a limit
    v_tokens := least(greatest(1, v_control.per_second), v_control.tokens
      + v_control.per_second * greatest(0, extract(epoch from v_now - v_control.refilled_at)));
    v_most := case when v_control.per_second is null then ${returnedBatch} else least(floor(v_tokens), p_limit) end;
    update ${n.state} s
    set status = ${status.ready},
      -- a pause that has ended is no pass
      passes = case when v_control.per_second is null then s.passes else s.passes || v_control.id end
    where s.seq = any (array(
        select r.seq
        from ${n.state} r
        where r.status = ${status.parked} and r.parked_by = v_control.id
        order by r.visible_at, r.seq
        limit v_most
        for update skip locked
      ));
    get diagnostics v_count = row_count;
    freed := freed + v_count;
    if v_control.per_second is null then
      returned := returned + v_count;
      delete from ${controlsTable(n)} c
      where c.id = v_control.id
        and not ${hasParked(n)};
      if not found then ending := ending + 1; end if;
    else
      update ${controlsTable(n)} c set tokens = v_tokens - v_count, refilled_at = v_now where c.id = v_control.id;
      if exists (select from ${n.state} r where r.status = ${status.parked} and r.parked_by = v_control.id) then
        wait_ms := least(wait_ms, greatest(0, 1 - (v_tokens - v_count)) / v_control.per_second * 1000);
      end if;
    end if;
  end loop;

  update ${n.state} s
  set passes = null
  where s.seq = any (p_seqs) and s.owner = p_owner and s.passes is not null;
  select json_agg(s.seq)::text into kept from ${n.state} s where s.seq = any (p_seqs) and s.owner = p_owner;
end`,
    "volatile\nset enable_seqscan = off", // plans may be cached while the tables are nearly empty
  );

export const applyControls = (n: QueueNames): SqlStatement =>
  statement(
    "apply controls",
    `select r.* from ${n.object("_apply_controls")}(:owner::uuid, translate(:items, '[]', '{}')::bigint[], :limit::int, :now::timestamptz) r`,
  );
