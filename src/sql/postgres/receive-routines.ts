import { status } from "../dialect.js";
import type { QueueNames } from "../names.js";
import { createFunction, doneTable, eachColumn, firstStatus, keyed } from "./expressions.js";
import { pendingArrivals } from "./partitions.js";

/**
 * A receive is decided step by step, so it is a function and not one statement: each step sees what was committed before
 * it, and finds its rows by key. As a single statement of five CTEs, its joins were planned as scans of the whole state
 * table wherever that had not been analysed yet.
 */
export const inboxFunctions = (n: QueueNames): readonly string[] => [
  receive(n),
  receiveMany(n),
  alreadyProcessed(n),
  mark(n),
];

const messageColumns =
  "source text, message_id text, topic text, type text, payload text, hash text, correlation_id text, headers text, due_at timestamptz, expires_at timestamptz, partition_key text";
const columns = eachColumn(messageColumns, (name) => name);
const contents = ["topic", "type", "payload", "hash", "correlation_id", "headers", "due_at", "expires_at"];

/** The same content as before. A delivery without a hash is no change of the hash. */
const isSame = `${contents
  .filter((name) => name !== "hash")
  .map((name) => `m.${name} is not distinct from p_${name}`)
  .join(" and ")} and coalesce(m.hash = p_hash, p_hash is null)`;

/** Hashes of two algorithms cannot be compared: of one content they differ, too. */
const isOtherHash = (before: string, after: string): string =>
  `coalesce(${before} <> ${after} and ${algorithm(before)} = ${algorithm(after)}, false)`;

/** With the colon. Empty for a hash that does not say it. */
const algorithm = (hash: string): string => `left(${hash}, strpos(${hash}, ':'))`;

/** Without p_revive it is the plain routine's: whoever may call that can add messages, and must not rewrite those of others. */
const receive = (n: QueueNames): string =>
  createFunction(
    n.object("_receive"),
    `${eachColumn(messageColumns, (name, type) => `p_${name} ${type}`)}, p_revive boolean, p_now timestamptz`,
    "returns text",
    `declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_seq bigint;
  v_hash text;
  v_first_seen_at timestamptz;
  v_key text;
  v_due_at timestamptz;
  v_expires_at timestamptz;
  v_is_same boolean;
  v_status smallint;
  v_changed boolean;
  v_enqueued boolean;
  v_is_plain boolean := p_revive is null;
begin
  loop
    -- Nearly always the message is known. A concurrent receive of the same message waits here.
    select m.seq, m.hash, m.first_seen_at, m.partition_key, m.due_at, m.expires_at, ${isSame}
    into v_seq, v_hash, v_first_seen_at, v_key, v_due_at, v_expires_at, v_is_same
    from ${n.message} m
    where m.source = p_source and m.message_id = p_message_id
    for update;
    exit when found;

    insert into ${n.message} as m (${columns}, first_seen_at, last_seen_at)
    values (${eachColumn(messageColumns, (name) => `p_${name}`)}, v_now, v_now)
    on conflict (source, message_id) do nothing
    returning m.seq into v_seq;
    if found then
      insert into ${n.state} (seq, status, visible_at, expires_at, keyed)
      values (v_seq, ${firstStatus("p_partition_key")}, coalesce(p_due_at, v_now), p_expires_at, ${keyed("p_partition_key")});
      if p_partition_key is not null then insert into ${pendingArrivals(n)} (seqs) values (array[v_seq]); end if;
      return 'enqueued';
    end if;
  end loop;

  -- A message without a state row is done. One that was marked Processing by hand is never claimed.
  select s.status into v_status from ${n.state} s where s.seq = v_seq;
  if found and ((not v_is_same and not v_is_plain) or v_status in (${status.seen}, ${status.processing}, ${status.dead})) then
    -- Lock the row only to change it: the caller's transaction may be long, and a settlement would wait for it.
    select s.status into v_status from ${n.state} s where s.seq = v_seq for update;
  end if;
  if not found then v_status := ${status.done}; end if;
  v_changed := ${isOtherHash("v_hash", "p_hash")};
  v_enqueued := v_status in (${status.seen}, ${status.processing}) or (coalesce(p_revive, false) and v_status = ${status.dead});

  if v_status = ${status.done} then -- it keeps the content that was handled
    update ${n.message} m
    set last_seen_at = v_now, deliveries = m.deliveries + 1, content_changed = v_changed
    where m.seq = v_seq;
    return case when v_changed then 'conflict' else 'done' end;
  end if;

  if (v_is_same and v_status in (${status.ready}, ${status.blocked})) or (v_is_plain and not v_enqueued) then
    update ${n.message} m
    set last_seen_at = v_now, deliveries = m.deliveries + 1, content_changed = v_changed
    where m.seq = v_seq;
    return case when v_changed then 'conflict' when v_status = ${status.dead} then 'dead' else 'duplicate' end;
  end if;

  update ${n.message} m
  set ${contents.map((name) => `${name} = ${name === "hash" ? "coalesce(p_hash, m.hash)" : `p_${name}`}`).join(", ")},
    last_seen_at = v_now, deliveries = m.deliveries + 1, content_changed = v_changed
  where m.seq = v_seq;

  if v_enqueued then
    if v_status <> ${status.dead} then -- it is enqueued for the first time
      update ${n.message} m set partition_key = p_partition_key where m.seq = v_seq;
      v_key := p_partition_key;
    end if;
    update ${n.state} s
    set status = ${firstStatus("v_key")}, keyed = ${keyed("v_key")}, attempt = 0, crashes = 0, owner = null, locked_until = null,
      reclaimable_at = null, visible_at = coalesce(p_due_at, v_now), expires_at = p_expires_at
    where s.seq = v_seq;
    if v_key is not null then insert into ${pendingArrivals(n)} (seqs) values (array[v_seq]); end if;
  elsif v_status in (${status.ready}, ${status.blocked})
    and (p_due_at is distinct from v_due_at or p_expires_at is distinct from v_expires_at) then
    -- A lease stays as it is and a back-off that has begun is not cut short. An expiry that a replay removed is not
    -- set again by the same delivery.
    update ${n.state} s
    set visible_at = case
        when s.locked_until is not null then s.visible_at
        when s.attempt = 0 then coalesce(p_due_at, v_first_seen_at)
        else greatest(s.visible_at, p_due_at)
      end,
      reclaimable_at = case
        when s.locked_until is null and s.reclaimable_at is not null then greatest(s.reclaimable_at, p_due_at)
        else s.reclaimable_at
      end,
      expires_at = case when p_expires_at is distinct from v_expires_at then p_expires_at else s.expires_at end
    where s.seq = v_seq;
  end if;
  return case
    when v_changed then 'conflict'
    when v_enqueued then 'enqueued'
    when v_status = ${status.dead} then 'dead'
    else 'duplicate'
  end;
end`,
  );

/** New messages are inserted as a set; only known messages are handled one by one. */
const receiveMany = (n: QueueNames): string =>
  createFunction(
    n.object("_receive_many"),
    "p_items json, p_revive boolean, p_now timestamptz",
    "returns table (source text, message_id text, outcome text)",
    `#variable_conflict use_column
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_new bigint[];
  v_keyed bigint[];
  v_item record;
begin
  with added as (
    insert into ${n.message} as m (${columns}, first_seen_at, last_seen_at)
    select ${values("i.")}, v_now, v_now
    from ${items}
    on conflict (source, message_id) do nothing
    returning m.seq, m.due_at, m.expires_at, m.partition_key
  ), states as (
    insert into ${n.state} (seq, status, visible_at, expires_at, keyed)
    select a.seq, ${firstStatus("a.partition_key")}, coalesce(a.due_at, v_now), a.expires_at, ${keyed("a.partition_key")}
    from added a
    returning seq, keyed
  )
  select coalesce(array_agg(s.seq), '{}'), array_agg(s.seq) filter (where s.keyed) into v_new, v_keyed from states s;
  if v_keyed is not null then insert into ${pendingArrivals(n)} (seqs) values (v_keyed); end if;

  return query
  select m.source::text, m.message_id::text, 'enqueued'
  from ${n.message} m
  where m.seq = any (v_new);
  if cardinality(v_new) = json_array_length(p_items) then return; end if;

  for v_item in
    select i.*
    from ${items}
    where not exists (
      select from ${n.message} m
      where m.source = i.source and m.message_id = i.message_id and m.seq = any (v_new)
    )
  loop
    return query
    select v_item.source, v_item.message_id, ${n.object("_receive")}(${values("v_item.")}, p_revive, p_now);
  end loop;
end`,
  );

/** The messages of p_items. */
const items = `json_to_recordset(p_items) as i(${messageColumns})`;
const values = (alias: string): string => eachColumn(messageColumns, (name) => `${alias}${name}`);

const alreadyProcessed = (n: QueueNames): string =>
  createFunction(
    n.object("_already_processed"),
    "p_source text, p_message_id text, p_hash text, p_now timestamptz, out processed boolean, out content_changed boolean",
    "",
    `declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_seq bigint;
  v_hash text;
begin
  loop
    insert into ${n.message} as m (source, message_id, topic, payload, hash, first_seen_at, last_seen_at)
    values (p_source, p_message_id, '', '', p_hash, v_now, v_now)
    on conflict (source, message_id) do nothing
    returning m.seq into v_seq;
    if found then
      insert into ${n.state} (seq, status, visible_at) values (v_seq, ${status.seen}, v_now);
      processed := false;
      content_changed := false;
      return;
    end if;
    select m.seq, m.hash into v_seq, v_hash
    from ${n.message} m
    where m.source = p_source and m.message_id = p_message_id
    for update;
    exit when found;
  end loop;

  processed := not exists (select from ${n.state} s where s.seq = v_seq);
  content_changed := ${isOtherHash("v_hash", "p_hash")};
  update ${n.message} m
  set hash = case when processed then coalesce(m.hash, p_hash) else coalesce(p_hash, m.hash) end,
    last_seen_at = v_now, deliveries = m.deliveries + 1, content_changed = ${n.bare("_already_processed")}.content_changed
  where m.seq = v_seq;
end`,
  );

/**
 * Marks a message by hand, whether it is leased or not: Processing only from Seen, Dead never from Done. A message that
 * was marked Processing by hand is never claimed: the code that marked it also finishes it.
 */
const mark = (n: QueueNames): string =>
  createFunction(
    n.object("_mark"),
    "p_source text, p_message_id text, p_status smallint, p_error text, p_error_group text, p_blocks boolean, p_now timestamptz",
    "returns bigint",
    `declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_seq bigint;
  v_is_new boolean;
  v_status smallint;
  v_attempt integer := 0;
  v_error text;
  v_keyed boolean;
begin
  insert into ${n.message} as m (source, message_id, topic, payload, first_seen_at, last_seen_at)
  values (p_source, p_message_id, '', '', v_now, v_now)
  on conflict (source, message_id) do update set last_seen_at = excluded.last_seen_at
  returning m.seq, xmax = 0 into v_seq, v_is_new;

  if v_is_new then
    insert into ${n.state} (seq, status, visible_at) values (v_seq, ${status.seen}, v_now);
  end if;
  select s.status, s.attempt, coalesce(p_error, s.last_error), s.keyed into v_status, v_attempt, v_error, v_keyed
  from ${n.state} s where s.seq = v_seq for update;
  if not found or (p_status = ${status.processing} and v_status <> ${status.seen}) then return null; end if;

  if p_status = ${status.done} then
    delete from ${n.state} s where s.seq = v_seq;
    insert into ${doneTable(n)} (seq, processed_at, attempt, last_error)
    values (v_seq, v_now, v_attempt, v_error);
  else
    update ${n.state} s
    set status = p_status, owner = null, locked_until = null, reclaimable_at = null, last_error = v_error,
      error_group = case when p_error is null then s.error_group else p_error_group end,
      died_at = case when p_status = ${status.dead} then v_now else s.died_at end
    where s.seq = v_seq;
  end if;
  if v_keyed and (p_status = ${status.done} or not p_blocks) then perform ${n.object("_leave_partition")}(array[v_seq]); end if;
  return v_seq;
end`,
  );
