import { status } from "../dialect.js";
import type { QueueNames } from "../names.js";
import { binary } from "./expressions.js";

/**
 * The messages of one partition key form a partition queue. Only its head is ready or held, so a claim needs to know
 * nothing of partitions. The others are blocked; the call that finishes the head makes the next one ready. See
 * docs/decisions/0010.
 */
export const partitionQueueTable = (n: QueueNames): string => n.object("PartitionQueue");
/** Keyed messages that are enqueued but not in their partition queue yet. The next claim moves them there. */
export const pendingArrivalsTable = (n: QueueNames): string => n.object("PendingArrivals");
/**
 * Always empty. A row that is inserted and deleted at once locks its key until the transaction ends, and leaves nothing
 * to clean up.
 */
const partitionLockTable = (n: QueueNames) => n.object("PartitionLock");

/**
 * Each partition key has two locks. `arrivals`: enqueueing transactions hold it until they end, however long that takes.
 * `queue`: the partition queue changes under it; enqueueing does not take it, so a settlement never waits for the
 * caller's transaction.
 */
const lockKind = { arrivals: 0, queue: 1 } as const;

export const partitionTables = (n: QueueNames): readonly string[] => [
  `create table ${partitionLockTable(n)} (
  partition_key nvarchar(255) ${binary} not null,
  lock_kind tinyint not null,
  constraint ${n.bare("PartitionLock_PK")} primary key clustered (partition_key, lock_kind)
)`,
  `create table ${partitionQueueTable(n)} (
  position bigint identity(1, 1) not null,
  partition_key nvarchar(255) ${binary} not null,
  seq bigint not null,
  constraint ${n.bare("PartitionQueue_PK")} primary key clustered (partition_key, position),
  constraint ${n.bare("PartitionQueue_Seq")} unique nonclustered (seq)
)`,
  `create table ${pendingArrivalsTable(n)} (
  number bigint identity(1, 1) not null,
  seq bigint not null,
  partition_key nvarchar(255) ${binary} not null,
  constraint ${n.bare("PendingArrivals_PK")} primary key clustered (number),
  constraint ${n.bare("PendingArrivals_Seq")} unique nonclustered (seq)
)`,
];

const keysTable = (name: string) =>
  `declare @${name} table (partition_key nvarchar(255) ${binary} not null primary key);`;

/** Takes the locks in the order of the partition keys, so that two calls wait for each other instead of deadlocking. */
const lock = (
  n: QueueNames,
  kind: keyof typeof lockKind,
  keys: string,
) => `insert into ${partitionLockTable(n)} (partition_key, lock_kind)
select k.partition_key, ${lockKind[kind]}
from @${keys} k
order by k.partition_key;

delete from ${partitionLockTable(n)}
from @${keys} k, ${partitionLockTable(n)}
where ${n.bare("PartitionLock")}.partition_key = k.partition_key and ${n.bare("PartitionLock")}.lock_kind = ${lockKind[kind]};`;

/**
 * Taken before messages are inserted, so that the arrivals of a partition key are in the order of commits. `keys` names the table
 * variable to declare, `from` the rows with keys.
 */
export const lockArrivals = (n: QueueNames, keys: string, from: string): string => `${keysTable(keys)}

insert into @${keys} (partition_key)
select distinct f.partition_key
from ${from} f
where f.partition_key is not null;

${lock(n, "arrivals", keys)}`;

/** Makes the heads of @keys ready. The caller holds the `queue` locks of these partition keys. */
const makeHeadsReady = (n: QueueNames) => `update ${n.state}
set status = ${status.ready}
from (
  select min(q.position) as position
  from @keys k
  inner join ${partitionQueueTable(n)} q on q.partition_key = k.partition_key
  group by k.partition_key
) h, ${partitionQueueTable(n)} f, ${n.state} with (rowlock)
where f.position = h.position and ${n.bare("State")}.seq = f.seq and ${n.bare("State")}.status = ${status.blocked};`;

export const readPast = "readpast, rowlock, readcommittedlock";

/** The most arrivals that one claim moves; the next claim moves the others. */
const mostArrivals = 1_000;

/**
 * Moves committed arrivals to their partition queues, in the order of their arrival. Rows of open transactions are skipped.
 * It moves only arrivals up to the greatest number that was visible before it reads them: all earlier arrivals of the
 * same partition key were committed by then, so none can be overtaken.
 */
export const enqueueArrivals = (n: QueueNames): string => `declare @upto bigint;
${keysTable("keys")}
declare @arrivals table (number bigint not null primary key, seq bigint not null, partition_key nvarchar(255) ${binary} not null);

insert into @keys (partition_key)
select distinct a.partition_key
from (
  select top (${mostArrivals}) r.partition_key
  from ${pendingArrivalsTable(n)} r with (${readPast})
  order by r.number
) a;

${lock(n, "queue", "keys")}

select @upto = max(r.number) from ${pendingArrivalsTable(n)} r with (${readPast});

delete from ${pendingArrivalsTable(n)}
output deleted.number, deleted.seq, deleted.partition_key into @arrivals (number, seq, partition_key)
from (
  select top (${mostArrivals}) r.number
  from ${pendingArrivalsTable(n)} r with (${readPast})
  inner join @keys k on k.partition_key = r.partition_key
  where r.number <= @upto
  order by r.number
) p, ${pendingArrivalsTable(n)} with (rowlock)
where ${n.bare("PendingArrivals")}.number = p.number;

insert into ${partitionQueueTable(n)} (partition_key, seq)
select a.partition_key, a.seq
from @arrivals a
inner join ${n.state} s on s.seq = a.seq
where s.status <> ${status.done} -- marked by hand before it joined its partition queue
  and not exists (select 1 from ${partitionQueueTable(n)} q where q.seq = a.seq) -- a dead message that kept its position and was replayed
order by a.number;

${makeHeadsReady(n)}`;

/** Removes the messages that @items numbers from their partition queues and makes the next of each ready. */
export const leavePartition = (n: QueueNames): string => `${keysTable("keys")}

insert into @keys (partition_key)
select distinct m.partition_key
from openjson(@items) with (seq bigint '$') i
inner join ${n.message} m on m.seq = i.seq
where m.partition_key is not null;

${lock(n, "queue", "keys")}

delete from ${partitionQueueTable(n)}
from openjson(@items) with (seq bigint '$') i, ${partitionQueueTable(n)} with (rowlock)
where ${n.bare("PartitionQueue")}.seq = i.seq;

delete from ${pendingArrivalsTable(n)}
from openjson(@items) with (seq bigint '$') i, ${pendingArrivalsTable(n)} with (rowlock)
where ${n.bare("PendingArrivals")}.seq = i.seq;

${makeHeadsReady(n)}`;

/** Calls `leavePartition` for the rows of `from` (a table with `seq`, alias `c`) that match `which`; for none it costs one test. */
export const callLeavePartition = (
  n: QueueNames,
  from: string,
  which: string,
): string => `if exists (select 1 from ${from} c where ${which})
begin
  declare @leaving nvarchar(max);
  select @leaving = N'[' + string_agg(cast(c.seq as nvarchar(max)), N',') + N']' from ${from} c where ${which};
  exec ${n.object("_LeavePartition")} @items = @leaving;
end`;
