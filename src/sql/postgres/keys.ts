import type { KeyStatements } from "../dialect.js";
import type { QueueNames } from "../names.js";
import { createFunction, epochMs, keysTable, ms, named, now } from "./expressions.js";

/** The keys of inbox stores. Nothing but their own statements touches them. */
export const keyRows = (n: QueueNames): readonly string[] => [
  `create table ${keysTable(n)} (
  source varchar(255) collate "C" not null,
  key varchar(255) collate "C" not null,
  -- null when the key was released or is processed
  lease_id uuid,
  -- the end of the last lease
  locked_until timestamptz,
  attempt integer not null,
  -- the name that the holder gave itself
  owner varchar(100),
  first_seen_at timestamptz not null,
  last_seen_at timestamptz not null,
  processed_at timestamptz,
  -- the lease that finished it, so that the same call again finds that it did
  processed_by uuid,
  primary key (source, key)
)
with (fillfactor = 70)`,
  // For the purge. No update changes its columns.
  `create index ${n.bare("_keys_purge")} on ${keysTable(n)} (source, first_seen_at)`,
];

/** Read when the row is locked: a call that waited decides by the time at which it got the lock. */
const clock = "coalesce(:now::timestamptz, clock_timestamp())";

const isKey = "k.source = :source and k.key = :key";
const isHeld = `k.lease_id = :lease_id::uuid and k.locked_until > ${clock}`;
const before = `${now} - ${ms(":retention_ms::float8")}`;

export const keyStatements = (n: QueueNames): KeyStatements => {
  const keys = keysTable(n);
  return named({
    tryBegin: `select r.processed, r.mine, ${epochMs("r.locked_until")} as locked_until
from ${n.object("_try_begin")}(:source, :key, :lease_id::uuid, :lease_ms::float8, :owner, :now::timestamptz) r`,
    // The function is called for one item after the other, because it stands behind a subquery that is not merged.
    tryBeginMany: `select i.key, r.processed, r.mine, ${epochMs("r.locked_until")} as locked_until
from (
  select * from json_to_recordset(:items::json) as t (key text, lease_id uuid, lease_ms float8, owner text) offset 0
) i
cross join lateral ${n.object("_try_begin")}(:source, i.key, i.lease_id, i.lease_ms, i.owner, :now::timestamptz) r`,
    renewKey: `update ${keys} k
set locked_until = ${clock} + ${ms(":lease_ms::float8")}
where ${isKey} and ${isHeld}
returning ${epochMs("k.locked_until")} as locked_until`,
    finishKey: `update ${keys} k
set processed_at = coalesce(k.processed_at, ${clock}), processed_by = :lease_id::uuid, lease_id = null, locked_until = null
where ${isKey} and ((${isHeld}) or k.processed_by = :lease_id::uuid)
returning true as finished`,
    // The purge keeps what was held since the retention.
    releaseKey: `update ${keys} k
set lease_id = null, locked_until = ${clock}
where ${isKey} and ${isHeld}
returning true as released`,
    markKey: `insert into ${keys} as k (source, key, attempt, first_seen_at, last_seen_at, processed_at)
values (:source, :key, 0, ${clock}, ${clock}, ${clock})
on conflict (source, key) do update
set last_seen_at = excluded.last_seen_at, processed_at = coalesce(k.processed_at, excluded.processed_at), lease_id = null,
  locked_until = null`,
    inspectKey: `select k.processed_at is not null as processed, coalesce(k.locked_until > ${now}, false) as held, k.attempt,
  ${epochMs("k.first_seen_at")} as first_seen_at, ${epochMs("k.last_seen_at")} as last_seen_at,
  ${epochMs("k.locked_until")} as locked_until, k.owner
from ${keys} k
where ${isKey}`,
    purgeKeys: `with old as (
  select k.source, k.key
  from ${keys} k
  where k.source = :source and k.first_seen_at < ${before} and k.last_seen_at < ${before}
    and coalesce(k.processed_at, k.locked_until, k.last_seen_at) < ${before}
  order by k.first_seen_at
  limit (select :limit::int)
  for update skip locked
), gone as (
  delete from ${keys} k
  using old
  where k.source = old.source and k.key = old.key
  returning k.key
)
select count(*)::int as deleted from gone`,
  });
};

/** A function of steps, because it decides once, by one time: that at which it holds the key. */
export const tryBeginFunction = (n: QueueNames): string =>
  createFunction(
    n.object("_try_begin"),
    `p_source text, p_key text, p_lease_id uuid, p_lease_ms float8, p_owner text, p_now timestamptz,
  out processed boolean, out mine boolean, out locked_until timestamptz`,
    "",
    `declare
  v_now timestamptz;
  v_key record;
  v_is_available boolean;
begin
  -- Of two calls that insert the same key, one waits and finds the key of the other.
  loop
    insert into ${keysTable(n)} as k (source, key, attempt, first_seen_at, last_seen_at)
    values (p_source, p_key, 0, coalesce(p_now, clock_timestamp()), coalesce(p_now, clock_timestamp()))
    on conflict (source, key) do nothing;
    select k.lease_id, k.locked_until, k.processed_at into v_key
    from ${keysTable(n)} k
    where k.source = p_source and k.key = p_key
    for update;
    exit when found; -- else a purge has just deleted it
  end loop;
  v_now := coalesce(p_now, clock_timestamp());
  processed := v_key.processed_at is not null;
  v_is_available := not processed and coalesce(v_key.locked_until <= v_now, true);
  mine := v_is_available or (not processed and v_key.lease_id = p_lease_id);
  locked_until := case when v_is_available then v_now + ${ms("p_lease_ms")} else v_key.locked_until end;
  if v_is_available then
    update ${keysTable(n)} k
    set lease_id = p_lease_id, locked_until = v_now + ${ms("p_lease_ms")}, attempt = k.attempt + 1, owner = p_owner, last_seen_at = v_now
    where k.source = p_source and k.key = p_key;
  else
    update ${keysTable(n)} k set last_seen_at = v_now where k.source = p_source and k.key = p_key;
  end if;
end`,
  );
