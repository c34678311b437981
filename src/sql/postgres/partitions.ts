import { status } from "../dialect.js";
import type { QueueNames } from "../names.js";
import { asOwner, createFunction, createTrigger } from "./expressions.js";

/**
 * The messages of one partition key form a partition queue. Only its head is `ready`, so a claim needs to know nothing of
 * partitions. The others are `blocked`; the call that finishes the head makes the next one ready. See
 * docs/decisions/0010.
 */
export const partitionQueue = (n: QueueNames): string => n.object("_partition_queue");
/** One row for each partition key that has a partition queue: the lock under which the queue changes. */
const partitionLock = (n: QueueNames) => n.object("_partition_lock");
/** The messages with a partition key that a transaction has enqueued, until it commits. Other transactions never see these rows. */
export const pendingArrivals = (n: QueueNames): string => n.object("_pending_arrivals");

/** Plans may be cached while the tables are nearly empty, so sequential scans are ruled out. */
const byIndex = "set enable_seqscan = off";

const vacuumEarly = "autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000";

export const partitionTables = (n: QueueNames): readonly string[] => [
  // version: counts the commits that enqueued messages; 0 in the row of a partition key that had no partition queue before.
  `create table ${partitionLock(n)} (
  partition_key varchar(255) collate "C" primary key,
  version bigint not null default 0
)
with (fillfactor = 50, ${vacuumEarly})`,
  `create table ${partitionQueue(n)} (
  position bigint generated always as identity,
  partition_key varchar(255) collate "C" not null,
  seq bigint not null unique,
  primary key (partition_key, position)
)
with (${vacuumEarly})`,
  `create table ${pendingArrivals(n)} (
  xid bigint not null default txid_current(),
  seqs bigint[] not null
)
with (${vacuumEarly})`,
  `create index ${n.bare("_pending_arrivals_xid")} on ${pendingArrivals(n)} (xid)`,
  // Without a primary key, PostgreSQL refuses deletes once a publication includes the table.
  `alter table ${pendingArrivals(n)} replica identity full`,
  enqueueArrivals(n),
  // Deferred to the commit. A long transaction then holds no lock that others with the same partition key would wait for,
  // and positions are in the order of commits.
  `create constraint trigger ${n.bare("_enqueue_arrivals")}
after insert on ${pendingArrivals(n)}
deferrable initially deferred
for each row execute function ${n.object("_enqueue_arrivals")}()`,
];

export const partitionFunctions = (n: QueueNames): readonly string[] => [
  enqueueArrivals(n),
  leavePartition(n),
  unblockPartitions(n),
  rejoinPartition(n),
  inPartition(n),
];

/** Makes the heads of `v_keys` ready. The caller holds the locks of these partition keys. */
const makeHeadsReady = (n: QueueNames, moreHeads = "") => `update ${n.state} s
  set status = ${status.ready}
  where s.status = ${status.blocked} and s.seq = any (array(
      select (select q.seq from ${partitionQueue(n)} q where q.partition_key = k.key order by q.position limit 1)
      from unnest(v_keys) as k(key)${moreHeads}
    ));`;

/**
 * The first call in a transaction appends all messages that the transaction enqueued to their partition queues. It takes
 * the locks in the order of the keys, so two transactions cannot deadlock.
 *
 * Under repeatable read the steps see an old state of the queue. Two rules make up for that. The lock is an update of
 * its row, so a settlement with an older snapshot fails instead of missing the new messages. And a key whose lock did not
 * exist had no queue, whatever the snapshot shows: the first message that arrived is its head.
 */
const enqueueArrivals = (n: QueueNames): string =>
  createTrigger(
    n.object("_enqueue_arrivals"),
    `declare
  v_seqs bigint[];
  v_keys text[];
  v_new_keys text[];
begin
  with mine as (
    delete from ${pendingArrivals(n)} a where a.xid = txid_current() returning a.seqs
  )
  select array_agg(i.seq) into v_seqs from mine, unnest(mine.seqs) as i(seq);
  -- without messages that were marked by hand in the same transaction
  select array_agg(s.seq) into v_seqs from ${n.state} s where s.seq = any (v_seqs) and s.status = ${status.blocked};
  if v_seqs is null then return null; end if;
  select array_agg(distinct m.partition_key::text) into v_keys from ${n.message} m where m.seq = any (v_seqs);

  with locked as (
    insert into ${partitionLock(n)} as l (partition_key)
    select k.key
    from unnest(v_keys) as k(key)
    order by k.key collate "C"
    on conflict (partition_key) do update set version = l.version + 1
    returning l.partition_key, l.version
  )
  select array_agg(locked.partition_key::text) into v_new_keys from locked where locked.version = 0;

  insert into ${partitionQueue(n)} (partition_key, seq)
  select m.partition_key, m.seq
  from ${n.message} m
  where m.seq = any (v_seqs)
  order by m.seq
  on conflict (seq) do nothing; -- a dead message that kept its position and was replayed
  ${makeHeadsReady(
    n,
    `
      union all
      select min(m.seq) from ${n.message} m
      where m.seq = any (v_seqs) and m.partition_key = any (v_new_keys)
      group by m.partition_key`,
  )}
  return null;
end`,
    // It runs at the commit, where a role that may only enqueue has its own rights again.
    `${asOwner}\n${byIndex}`,
  );

/**
 * Called inside a condition for its side effect. Always false, so that the condition's value is fixed. Strict: it does not
 * run for null. Each step sees what was committed before it.
 */
const leavePartition = (n: QueueNames): string =>
  createFunction(
    n.object("_leave_partition"),
    "p_seqs bigint[]",
    "returns boolean",
    `declare
  v_keys text[];
begin
  select array_agg(q.partition_key::text) into v_keys from ${partitionQueue(n)} q where q.seq = any (p_seqs);
  if v_keys is null then return false; end if;
  perform from ${partitionLock(n)} where partition_key = any (v_keys) order by partition_key for update;

  delete from ${partitionQueue(n)} where seq = any (p_seqs);
  ${makeHeadsReady(n)}
  delete from ${partitionLock(n)} l
  where l.partition_key = any (v_keys)
    and not exists (select from ${partitionQueue(n)} q where q.partition_key = l.partition_key);
  return false;
end`,
    `strict\n${byIndex}`,
  );

/**
 * Dead messages that are still in their partition queues, because `deadInPartition` was "block", leave them. Called inside a
 * condition for its side effect. Always false.
 */
const unblockPartitions = (n: QueueNames): string =>
  createFunction(
    n.object("_unblock_partitions"),
    "",
    "returns boolean",
    `begin
  -- a database user that uses no partition keys may not read their tables
  if not exists (select from ${n.state} s where s.status = ${status.dead} and s.keyed) then return false; end if;
  return ${n.object("_leave_partition")}(array(
    select s.seq
    from ${n.state} s
    where s.status = ${status.dead} and s.keyed and exists (select from ${partitionQueue(n)} q where q.seq = s.seq)
  ));
end`,
    byIndex,
  );

/** A condition that is always true. As a subselect it runs once, also when the statement returns no rows. */
export const unblock = (n: QueueNames): string => `(select ${n.object("_unblock_partitions")}()) is not true`;

/**
 * Called inside a condition for its side effect. Always false, so that the condition's value is fixed. It is a function, so
 * that a database user that uses no partition keys needs no right to write to their tables.
 */
const rejoinPartition = (n: QueueNames): string =>
  createFunction(
    n.object("_rejoin_partition"),
    "p_seqs bigint[]",
    "returns boolean",
    `begin
  insert into ${pendingArrivals(n)} (seqs) values (p_seqs);
  return false;
end`,
    "strict",
  );

/**
 * A condition that is always true. It appends the rows of a CTE that have a partition key to their partition queues again, when the
 * transaction commits.
 */
export const rejoinPartitions = (n: QueueNames, cte: string): string =>
  `(select ${n.object("_rejoin_partition")}(array_agg(rejoining.seq)) from ${cte} rejoining where rejoining.keyed) is not true`;

/**
 * A condition that is always true. It removes the rows of a CTE that have a partition key, and match `which`, from their partition
 * queues. As a condition it runs once, when the CTE is complete. For rows without a partition key it calls nothing.
 */
export const leavePartitions = (n: QueueNames, cte: string, which = "true"): string =>
  `(select ${n.object("_leave_partition")}(array_agg(leaving.seq)) from ${cte} leaving where leaving.keyed and ${which}) is not true`;

/** A function, so that a database user that uses no partition keys needs no right to read their tables. */
const inPartition = (n: QueueNames): string =>
  createFunction(
    n.object("_in_partition"),
    "p_seq bigint",
    "returns boolean",
    `begin
  return exists (select from ${partitionQueue(n)} q where q.seq = p_seq);
end`,
    `stable\n${byIndex}`,
  );

/** A condition: the message of the state `s` is in its partition queue. Of one without a partition key nothing is looked at. */
export const isInPartition = (n: QueueNames, s: string): string =>
  `case when ${s}.keyed then ${n.object("_in_partition")}(${s}.seq) else false end`;
