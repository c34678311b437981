import { type KeyStatements, status } from "../dialect.js";
import { statement } from "../driver.js";
import type { QueueNames } from "../names.js";
import { create, doneTable, epochMs, ms, now } from "./expressions.js";
import { messages } from "./views.js";

const key = ":source, :message_id";
const isKey = "m.source = :source and m.message_id = :message_id";
const before = `${now} - ${ms(":retention_ms::float8")}`;
const isAbandoned = `s.status = ${status.leased} and s.visible_at < ${before} and (s.locked_until is null or s.locked_until < ${before})`;

export const keyStatements = (n: QueueNames): KeyStatements => ({
  tryBegin: statement(
    "try begin",
    `select r.status, r.mine, ${epochMs("r.locked_until")} as locked_until
from ${n.object("_try_begin")}(${key}, :owner::uuid, :lease_ms::float8, :headers, :now::timestamptz) r`,
  ),
  // The function is called for one item after the other, because it stands behind a subquery that is not merged.
  tryBeginMany: statement(
    "try begin many",
    `select i.message_id, r.status, r.mine, ${epochMs("r.locked_until")} as locked_until
from (
  select * from json_to_recordset(:items::json) as t (message_id text, owner uuid, lease_ms float8, headers text) offset 0
) i
cross join lateral ${n.object("_try_begin")}(:source, i.message_id, i.owner, i.lease_ms, i.headers, :now::timestamptz) r`,
  ),
  renewKey: statement(
    "renew key",
    `select ${epochMs("r")} as locked_until
from ${n.object("_renew_key")}(${key}, :owner::uuid, :lease_ms::float8, :now::timestamptz) r
where r is not null`,
  ),
  finishKey: statement(
    "finish key",
    `select r from ${n.object("_finish_key")}(${key}, :owner::uuid, :now::timestamptz) r where r`,
  ),
  releaseKey: statement(
    "release key",
    `select r from ${n.object("_release_key")}(${key}, :owner::uuid, :now::timestamptz) r where r`,
  ),
  inspectKey: statement(
    "inspect key",
    `select coalesce(s.status, ${status.done}) as status, coalesce(s.locked_until > ${now}, false) as live,
  coalesce(s.attempt, d.attempt) as attempt, ${epochMs("m.first_seen_at")} as first_seen_at,
  ${epochMs("m.last_seen_at")} as last_seen_at, ${epochMs("s.locked_until")} as locked_until, m.headers
${messages(n)}
where ${isKey}`,
  ),
  // The keys are locked before their states, as a try begin locks them. A key that another call takes meanwhile was seen
  // just now, and its state is tested once more. The condition on the message is a subselect: as a join it was planned as a
  // scan of all keys of the source wherever the tables had not been analysed yet.
  purgeKeys: statement(
    "purge keys",
    `with old as (
  select s.seq
  from ${n.state} s
  where ${isAbandoned}
    and (select m.source = :source and m.last_seen_at < ${before} from ${n.message} m where m.seq = s.seq)
  order by s.visible_at, s.seq
  limit (select :limit::int)
), locked as (
  select m.seq
  from ${n.message} m
  where m.seq = any (array(select seq from old)) and m.last_seen_at < ${before}
  for update skip locked
), gone as (
  delete from ${n.state} s
  where s.seq = any (array(select seq from locked)) and ${isAbandoned}
  returning s.seq
), gone_keys as (
  delete from ${n.message} m
  where m.seq = any (array(select seq from gone))
)
select count(*)::int as deleted from gone`,
  ),
});

/**
 * The keys of an inbox store. Each function locks first and reads the clock then: a call that waited for a lock decides by the
 * time at which it got it.
 */
export const keyFunctions = (n: QueueNames): readonly string[] => [
  tryBegin(n),
  renewKey(n),
  finishKey(n),
  releaseKey(n),
];

const readClock = "v_now := coalesce(p_now, clock_timestamp());";

/** Locks the key and then its state. Of two calls that insert the same key, one waits and finds the key of the other. */
const tryBegin = (n: QueueNames): string =>
  create(
    n.object("_try_begin"),
    "text, text, uuid, float8, text, timestamptz",
    `(p_source text, p_message_id text, p_lease_id uuid, p_lease_ms float8, p_headers text, p_now timestamptz,
  out status smallint, out mine boolean, out locked_until timestamptz)`,
    `declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_seq bigint;
  v_owner uuid;
  v_takes boolean := false;
begin
  loop
    select m.seq into v_seq
    from ${n.message} m
    where m.source = p_source and m.message_id = p_message_id
    for update;
    exit when found;

    insert into ${n.message} as m (source, message_id, topic, payload, headers, first_seen_at, last_seen_at)
    values (p_source, p_message_id, '', '', p_headers, v_now, v_now)
    on conflict (source, message_id) do nothing
    returning m.seq into v_seq;
    if found then
      ${readClock}
      status := ${status.leased};
      mine := true;
      locked_until := v_now + ${ms("p_lease_ms")};
      insert into ${n.state} (seq, status, visible_at, locked_until, owner, attempt)
      values (v_seq, ${status.leased}, v_now, _try_begin.locked_until, p_lease_id, 1);
      return;
    end if;
  end loop;

  select s.status, s.owner, s.locked_until into status, v_owner, locked_until
  from ${n.state} s
  where s.seq = v_seq
  for update;
  ${readClock}
  if status is null then -- a message without a state row is done
    status := ${status.done};
  elsif status = ${status.seen} or (status = ${status.leased} and (locked_until is null or locked_until <= v_now)) then
    status := ${status.leased};
    v_owner := p_lease_id;
    v_takes := true;
    locked_until := v_now + ${ms("p_lease_ms")};
    update ${n.state} s
    set status = ${status.leased}, visible_at = v_now, locked_until = _try_begin.locked_until, owner = p_lease_id, attempt = s.attempt + 1
    where s.seq = v_seq;
  end if;
  mine := coalesce(status = ${status.leased} and v_owner = p_lease_id, false);
  update ${n.message} m
  set last_seen_at = v_now, headers = case when v_takes then p_headers else m.headers end
  where m.seq = v_seq;
end`.replaceAll("_try_begin.locked_until", `${n.bare("_try_begin")}.locked_until`),
  );

/** A function on the key that p_lease_id holds. Its state row `s` is locked in the first step. */
const byHolder = (n: QueueNames, { suffix, lease = "", returns, otherwise, held }: HolderFunction): string =>
  create(
    n.object(suffix),
    `text, text, uuid, ${lease === "" ? "" : "float8, "}timestamptz`,
    `(p_source text, p_message_id text, p_lease_id uuid, ${lease}p_now timestamptz) returns ${returns}`,
    `declare
  v_now timestamptz;
  v_seq bigint;
  v_state record;
begin
  select m.seq into v_seq from ${n.message} m where m.source = p_source and m.message_id = p_message_id;
  select s.owner, s.locked_until, s.attempt, s.last_error into v_state
  from ${n.state} s
  where s.seq = v_seq and s.status = ${status.leased}
  for update;
  ${readClock}
  if v_state.owner = p_lease_id and v_state.locked_until > v_now then
    ${held}
  end if;
  return ${otherwise};
end`,
  );

interface HolderFunction {
  readonly suffix: string;
  /** The declaration of p_lease_ms, where there is one. */
  readonly lease?: string;
  readonly returns: string;
  /** What it returns when p_lease_id does not hold the key. */
  readonly otherwise: string;
  readonly held: string;
}

const renewKey = (n: QueueNames): string =>
  byHolder(n, {
    suffix: "_renew_key",
    lease: "p_lease_ms float8, ",
    returns: "timestamptz",
    otherwise: "null",
    held: `update ${n.state} s set locked_until = v_now + ${ms("p_lease_ms")} where s.seq = v_seq;
    return v_now + ${ms("p_lease_ms")};`,
  });

/** The done row keeps the lease id, so that the same call again finds that it was done. */
const finishKey = (n: QueueNames): string =>
  byHolder(n, {
    suffix: "_finish_key",
    returns: "boolean",
    otherwise: `exists (select from ${doneTable(n)} d where d.seq = v_seq and d.processed_by = p_lease_id::text)`,
    held: `delete from ${n.state} s where s.seq = v_seq;
    insert into ${doneTable(n)} (seq, processed_at, attempt, processed_by, last_error)
    values (v_seq, v_now, v_state.attempt, p_lease_id::text, v_state.last_error);
    return true;`,
  });

const releaseKey = (n: QueueNames): string =>
  byHolder(n, {
    suffix: "_release_key",
    returns: "boolean",
    otherwise: "false",
    held: `update ${n.state} s set owner = null, locked_until = null, visible_at = v_now where s.seq = v_seq;
    return true;`,
  });
