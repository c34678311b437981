import { status } from "../dialect.js";
import type { QueueNames } from "../names.js";
import { create, createTrigger } from "./routine.js";

/**
 * Messages with a partition key stand in line, and only the head of a line is `ready`: claims need not know of
 * lines at all. The others are `behind`; whoever finishes the head makes the next one ready. See
 * docs/decisions/0010.
 */
const line = (n: QueueNames) => n.object("_line");
/** One row for each key that has a line: the lock under which lines change. */
const lane = (n: QueueNames) => n.object("_lane");
/** What a transaction has enqueued with keys, until it commits. Nobody ever sees another's rows. */
export const arrived = (n: QueueNames): string => n.object("_arrived");

/** These tables are mostly small when a plan is made and may be large when it is used. */
const byIndex = "set enable_seqscan = off";

const vacuumEarly = "autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000";

export const laneTables = (n: QueueNames): readonly string[] => [
  `create table ${lane(n)} (
  partition_key varchar(255) collate "C" primary key,
  turns bigint not null default 0
)
with (fillfactor = 50, ${vacuumEarly})`,
  `create table ${line(n)} (
  place bigint generated always as identity,
  partition_key varchar(255) collate "C" not null,
  seq bigint not null unique,
  primary key (partition_key, place)
)
with (${vacuumEarly})`,
  `create table ${arrived(n)} (
  xid bigint not null default txid_current(),
  seqs bigint[] not null
)
with (${vacuumEarly})`,
  `create index ${n.bare("_arrived_xid")} on ${arrived(n)} (xid)`,
  arrive(n),
  // At the commit, so that a long transaction holds no lock that others of the same key would wait for, and so
  // that places are in the order of commits.
  `create constraint trigger ${n.bare("_arrive")}
after insert on ${arrived(n)}
deferrable initially deferred
for each row execute function ${n.object("_arrive")}()`,
];

export const laneFunctions = (n: QueueNames): readonly string[] => [arrive(n), leave(n), comeBack(n)];

/** Under the locks of `v_keys`. */
const readyHeads = (n: QueueNames, more = "") => `update ${n.state} s
  set status = ${status.ready}
  where s.status = ${status.blocked} and s.seq = any (array(
      select (select l.seq from ${line(n)} l where l.partition_key = k.key order by l.place limit 1)
      from unnest(v_keys) as k(key)${more}
    ));`;

/**
 * The first call in a transaction does it for all that it enqueued, with the locks in the keys' order: two
 * transactions cannot deadlock.
 *
 * Under repeatable read the steps see an old line. So the lock is an update, not only a lock: a settlement whose
 * snapshot is older then fails instead of missing what came. And where there was no lock there was no line, whatever
 * is to be seen: the first that came is its head.
 */
const arrive = (n: QueueNames): string =>
  createTrigger(
    n.object("_arrive"),
    `declare
  v_seqs bigint[];
  v_keys text[];
  v_new_keys text[];
begin
  with mine as (
    delete from ${arrived(n)} a where a.xid = txid_current() returning a.seqs
  )
  select array_agg(i.seq) into v_seqs from mine, unnest(mine.seqs) as i(seq);
  -- without those that were finished by hand in the same transaction
  select array_agg(s.seq) into v_seqs from ${n.state} s where s.seq = any (v_seqs) and s.status = ${status.blocked};
  if v_seqs is null then return null; end if;
  select array_agg(distinct m.partition_key::text) into v_keys from ${n.message} m where m.seq = any (v_seqs);

  with locked as (
    insert into ${lane(n)} as lane (partition_key)
    select k.key
    from unnest(v_keys) as k(key)
    order by k.key collate "C"
    on conflict (partition_key) do update set turns = lane.turns + 1
    returning lane.partition_key, lane.turns
  )
  select array_agg(locked.partition_key::text) into v_new_keys from locked where locked.turns = 0;

  insert into ${line(n)} (partition_key, seq)
  select m.partition_key, m.seq
  from ${n.message} m
  where m.seq = any (v_seqs)
  order by m.seq
  on conflict (seq) do nothing; -- a dead one that was replayed where it stood
  ${readyHeads(
    n,
    `
      union all
      select min(m.seq) from ${n.message} m
      where m.seq = any (v_seqs) and m.partition_key = any (v_new_keys)
      group by m.partition_key`,
  )}
  return null;
end`,
    byIndex,
  );

/** Never true; not called at all for no row numbers. Each step sees what was committed before it. */
const leave = (n: QueueNames): string =>
  create(
    n.object("_leave"),
    "bigint[]",
    "(p_seqs bigint[]) returns boolean",
    `declare
  v_keys text[];
begin
  select array_agg(l.partition_key::text) into v_keys from ${line(n)} l where l.seq = any (p_seqs);
  if v_keys is null then return false; end if;
  perform from ${lane(n)} where partition_key = any (v_keys) order by partition_key for update;

  delete from ${line(n)} where seq = any (p_seqs);
  ${readyHeads(n)}
  delete from ${lane(n)} lane
  where lane.partition_key = any (v_keys)
    and not exists (select from ${line(n)} l where l.partition_key = lane.partition_key);
  return false;
end`,
    `strict\n${byIndex}`,
  );

/** Never true. A function, so that who never uses partition keys needs no right to write to their tables. */
const comeBack = (n: QueueNames): string =>
  create(
    n.object("_return"),
    "bigint[]",
    "(p_seqs bigint[]) returns boolean",
    `begin
  insert into ${arrived(n)} (seqs) values (p_seqs);
  return false;
end`,
    "strict",
  );

/** True, and lets those rows of a CTE that have a key get in line again. */
export const letReturn = (n: QueueNames, cte: string): string =>
  `(select ${n.object("_return")}(array_agg(back.seq)) from ${cte} back where back.keyed) is not true`;

/**
 * True, and lets those rows of a CTE that have a key leave their lines: as a condition it runs once, when all of the
 * CTE is there. Among rows without a key it finds nothing and calls nothing.
 */
export const letLeave = (n: QueueNames, cte: string, which = "true"): string =>
  `(select ${n.object("_leave")}(array_agg(left_line.seq)) from ${cte} left_line where left_line.keyed and ${which}) is not true`;
