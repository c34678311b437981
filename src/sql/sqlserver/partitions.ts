import { status } from "../dialect.js";
import type { QueueNames } from "../names.js";
import { binary, unicodeLiteral } from "./expressions.js";
import { deadlockedKeys } from "./faults.js";
import { indented, lockRow, readPast, skipLocked, stateTable } from "./procedure.js";

/**
 * The messages of one partition key form a partition queue. Only its head is ready or held, so a claim needs to know
 * nothing of partitions. The others are blocked. See docs/decisions/0010 and 0023.
 */
export const partitionQueueTable = (n: QueueNames): string => n.object("PartitionQueue");
/**
 * Messages that join or leave their partition queues. Whoever enqueues or finishes a message writes a row here, and locks
 * nothing else of a partition. The next claim applies the rows: nothing else changes partition queues.
 */
export const partitionChangesTable = (n: QueueNames): string => n.object("PartitionChanges");

/** `check`: the head of the partition queue could not be made ready because another transaction had locked its state. */
const change = { join: 0, leave: 1, check: 2 } as const;

export const partitionTables = (n: QueueNames): readonly string[] => [
  `create table ${partitionQueueTable(n)} (
  position bigint identity(1, 1) not null,
  partition_key nvarchar(255) ${binary} not null,
  seq bigint not null,
  constraint ${n.bare("PartitionQueue_PK")} primary key clustered (partition_key, position),
  constraint ${n.bare("PartitionQueue_Seq")} unique nonclustered (seq)
)`,
  `create table ${partitionChangesTable(n)} (
  number bigint identity(1, 1) not null,
  seq bigint not null,
  partition_key nvarchar(255) ${binary} not null,
  -- ${change.join} joins, ${change.leave} leaves, ${change.check} the head is to be checked
  change tinyint not null,
  constraint ${n.bare("PartitionChanges_PK")} primary key clustered (number)
)`,
];

/** The name of a lock. Two long keys with the same name would only wait for each other. */
const lockName = (n: QueueNames, key: string) =>
  `concat(${unicodeLiteral(`oncebox ${n.schema}.${n.table}: `)}, left(${key}, 150), N' ', checksum(${key})) ${binary}`;

/**
 * Locks the partition keys of @messages until the transaction ends, so that the messages of a key are in the order of
 * commits. A call takes its locks in the order of their names, before any row. Two transactions of several calls each can
 * still deadlock; one of them is then rolled back.
 */
export const lockArrivals = (
  n: QueueNames,
): string => `if exists (select 1 from @messages i where i.partition_key is not null)
begin
  declare @lock nvarchar(255) = N'', @locked int = 0;
  declare @locks table (name nvarchar(255) ${binary} not null primary key);

  insert into @locks (name)
  select distinct ${lockName(n, "i.partition_key")} from @messages i where i.partition_key is not null;

  while @lock is not null
  begin
    select @lock = min(l.name) from @locks l where l.name > @lock;
    if @lock is not null exec @locked = sp_getapplock @Resource = @lock, @LockMode = 'Exclusive', @LockOwner = 'Transaction';
    if @locked < 0 throw ${deadlockedKeys}, N'The transaction was rolled back: it waited for a partition key in a deadlock, or for too long.', 1;
  end
end`;

/** Rows of `from` (a table with `seq`, alias `c`) that match `which` and have a partition key are noted as joining or leaving. */
const noteChange = (n: QueueNames, what: keyof typeof change, from: string, which: string) =>
  `if exists (select 1 from ${from} c where ${which})
  insert into ${partitionChangesTable(n)} (seq, partition_key, change)
  select c.seq, m.partition_key, ${change[what]} from ${from} c
  inner join ${n.message} m with (forceseek, rowlock, readcommittedlock) on m.seq = c.seq
  where ${which} and m.partition_key is not null order by c.seq;`;

/** The rows are blocked until they are the heads of their partition queues. */
export const joinPartition = (n: QueueNames, from: string, which: string): string =>
  noteChange(n, "join", from, which);

/** The rows leave their partition queues, and the next message of each becomes its head, by the next claim. */
export const leavePartition = (n: QueueNames, from: string, which: string): string =>
  noteChange(n, "leave", from, which);

/**
 * Dead messages that are still in their partition queues because `deadInPartition` was "block". They have an index of their own: the
 * other dead messages, of which there may be many, are not read. It is not named, because nobody waits for this read.
 */
export const leaveDead = (
  n: QueueNames,
): string => `insert into ${partitionChangesTable(n)} (seq, partition_key, change)
select q.seq, q.partition_key, ${change.leave}
from ${n.state} s with (${readPast})
inner join ${partitionQueueTable(n)} q with (forceseek, ${readPast}) on q.seq = s.seq
where s.status = ${status.dead} and s.keyed = 1;`;

/** There are changes that are committed and not applied yet. */
export const hasChanges = (n: QueueNames): string =>
  `exists (select 1 from ${partitionChangesTable(n)} c with (${readPast}))`;

/** Applying the changes may make a message ready: one joins, or one leaves others behind. */
export const mayBringHeads = (n: QueueNames): string => `exists (
  select 1 from ${partitionChangesTable(n)} c with (${readPast})
  where c.change <> ${change.leave} or exists (
    select 1 from ${partitionQueueTable(n)} q with (forceseek, ${readPast})
    where q.partition_key = c.partition_key and q.seq <> c.seq
  )
)`;

/**
 * For operators, who see partition queues as the next claim will find them: `movedQueue` is the partition queues with the
 * changes that are noted and not applied yet. Above all a paused queue has such changes.
 */
export const declareMoves = (n: QueueNames): string => `declare @left table (seq bigint not null primary key);
declare @joined table (
  partition_key nvarchar(255) ${binary} not null,
  number bigint not null,
  seq bigint not null,
  primary key (partition_key, number)
);

insert into @left (seq)
select distinct c.seq from ${partitionChangesTable(n)} c where c.change = ${change.leave};

insert into @joined (partition_key, number, seq)
select c.partition_key, c.number, c.seq
from (
  select max(a.number) as number from ${partitionChangesTable(n)} a where a.change <> ${change.check} group by a.seq
) l
inner join ${partitionChangesTable(n)} c on c.number = l.number
where c.change = ${change.join} and (
  exists (select 1 from @left g where g.seq = c.seq) or not exists (
    select 1 from ${partitionQueueTable(n)} q with (forceseek) where q.seq = c.seq
  )
);`;

/** Who joins comes after all that are in a partition queue already. */
export const movedQueue = (n: QueueNames): string => `(
    select a.partition_key, a.position, a.seq
    from ${partitionQueueTable(n)} a
    where not exists (select 1 from @left g where g.seq = a.seq)
    union all
    select j.partition_key, j.number + cast(4611686018427387904 as bigint), j.seq from @joined j
  )`;

/** The most changes that one claim applies; the next claim applies the others. */
const mostChanges = 1_000;

/**
 * Applies the committed changes in the order of their numbers. It waits for nobody: one call applies at a time and the others
 * go on without, rows of open transactions are skipped, and a head whose state is locked is left to a later claim.
 *
 * It applies only changes up to the greatest number that was visible before it reads them: all earlier messages of the
 * same partition key were committed by then, so none can be overtaken.
 */
export function applyChanges(n: QueueNames): string {
  const changes = n.bare("PartitionChanges");
  const queue = n.bare("PartitionQueue");
  return `declare @locked int, @upto bigint;
declare @changes table (
  number bigint not null primary key, seq bigint not null, partition_key nvarchar(255) ${binary} not null,
  change tinyint not null, unique (seq, number)
);
declare @heads table (seq bigint not null primary key, partition_key nvarchar(255) ${binary} not null);
declare @unlocked table (seq bigint not null primary key);

exec @locked = sp_getapplock @Resource = ${unicodeLiteral(`oncebox ${n.schema}.${n.table} partitions`)}, @LockMode = 'Exclusive', @LockOwner = 'Transaction', @LockTimeout = 0;

if @locked >= 0
begin
${indented(`select @upto = max(r.number) from ${partitionChangesTable(n)} r with (${readPast});

delete from ${partitionChangesTable(n)}
output deleted.number, deleted.seq, deleted.partition_key, deleted.change into @changes (number, seq, partition_key, change)
from (
  select top (${mostChanges}) r.number
  from ${partitionChangesTable(n)} r with (${skipLocked})
  where r.number <= @upto
  order by r.number
) p, ${partitionChangesTable(n)} with (forceseek, ${skipLocked})
where ${changes}.number = p.number;

delete from ${partitionQueueTable(n)}
from @changes c, ${partitionQueueTable(n)} with (forceseek, rowlock, readcommittedlock)
where c.change = ${change.leave} and ${queue}.seq = c.seq;

-- the last change of a message decides; a dead message that kept its position and was replayed still has it
insert into ${partitionQueueTable(n)} (partition_key, seq)
select c.partition_key, c.seq
from @changes c
where c.change = ${change.join}
  and not exists (select 1 from @changes l where l.seq = c.seq and l.number > c.number and l.change <> ${change.check})
  and not exists (
    select 1 from ${partitionQueueTable(n)} q with (forceseek, readcommittedlock)
    where q.seq = c.seq
  )
order by c.number;

insert into @heads (seq, partition_key)
select h.seq, k.partition_key
from (select distinct c.partition_key from @changes c) k
cross apply (
  select top (1) q.seq
  from ${partitionQueueTable(n)} q with (forceseek, readcommittedlock)
  where q.partition_key = k.partition_key
  order by q.position
) h;

insert into @unlocked (seq)
select s.seq
from @heads h
inner join ${n.state} s with (forceseek, ${skipLocked}) on s.seq = h.seq;

update ${n.state}
set status = ${status.ready}
from @unlocked u, ${n.state} with (${lockRow})
where ${stateTable(n)}.seq = u.seq and ${stateTable(n)}.status = ${status.blocked};

insert into ${partitionChangesTable(n)} (seq, partition_key, change)
select h.seq, h.partition_key, ${change.check}
from @heads h
where not exists (select 1 from @unlocked u where u.seq = h.seq);`)}
end`;
}
