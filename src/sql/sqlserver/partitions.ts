import { status } from "../dialect.js";
import type { QueueNames } from "../names.js";
import { binary } from "./expressions.js";

/**
 * Messages with a partition key stand in line, and only the head of a line is ready or held: claims need not know of
 * lines. Whoever finishes the head makes the next one ready. See docs/decisions/0010.
 */
const lineTable = (n: QueueNames) => n.object("Line");
/** What was enqueued with a key and has not got in line yet: the next claim sees to that. */
export const arrivedTable = (n: QueueNames): string => n.object("Arrived");
/** Always empty. A row that is inserted and deleted at once keeps others from its key until the transaction ends. */
const laneTable = (n: QueueNames) => n.object("Lane");

/** Two locks for each key: enqueueing transactions keep the one, however long they are; turns change under the other. */
const side = { end: 0, head: 1 } as const;

export const laneTables = (n: QueueNames): readonly string[] => [
  `create table ${laneTable(n)} (
  partition_key nvarchar(255) ${binary} not null,
  side tinyint not null,
  constraint ${n.bare("Lane_PK")} primary key clustered (partition_key, side)
)`,
  `create table ${lineTable(n)} (
  place bigint identity(1, 1) not null,
  partition_key nvarchar(255) ${binary} not null,
  seq bigint not null,
  constraint ${n.bare("Line_PK")} primary key clustered (partition_key, place),
  constraint ${n.bare("Line_Seq")} unique nonclustered (seq)
)`,
  `create table ${arrivedTable(n)} (
  number bigint identity(1, 1) not null,
  seq bigint not null,
  partition_key nvarchar(255) ${binary} not null,
  constraint ${n.bare("Arrived_PK")} primary key clustered (number),
  constraint ${n.bare("Arrived_Seq")} unique nonclustered (seq)
)`,
];

const keysTable = (name: string) =>
  `declare @${name} table (partition_key nvarchar(255) ${binary} not null primary key);`;

/** In the keys' order, so that two calls wait for each other instead of deadlocking. */
const lock = (
  n: QueueNames,
  which: keyof typeof side,
  keys: string,
) => `insert into ${laneTable(n)} (partition_key, side)
select k.partition_key, ${side[which]}
from @${keys} k
order by k.partition_key;

delete from ${laneTable(n)}
from @${keys} k, ${laneTable(n)}
where ${n.bare("Lane")}.partition_key = k.partition_key and ${n.bare("Lane")}.side = ${side[which]};`;

/** Before they arrive, so that within a key arrivals are in the order of commits. `from`: rows with keys. */
export const lockEnds = (n: QueueNames, name: string, from: string): string => `${keysTable(name)}

insert into @${name} (partition_key)
select distinct f.partition_key
from ${from} f
where f.partition_key is not null;

${lock(n, "end", name)}`;

const readyHeads = (n: QueueNames) => `update ${n.state}
set status = ${status.ready}
from (
  select min(l.place) as place
  from @keys k
  inner join ${lineTable(n)} l on l.partition_key = k.partition_key
  group by k.partition_key
) h, ${lineTable(n)} f, ${n.state} with (rowlock)
where f.place = h.place and ${n.bare("State")}.seq = f.seq and ${n.bare("State")}.status = ${status.blocked};`;

export const readPast = "readpast, rowlock, readcommittedlock";

/** A few at a time: the rest is the next claim's. */
const mostArrivals = 1_000;

/**
 * What is committed gets in line, in the order of its arrival. Rows of transactions that are open are stepped over.
 * Up to the greatest number that was there before the rows are read: whatever came before those in the same key
 * was committed by then, so none can be overtaken.
 */
export const arrive = (n: QueueNames): string => `declare @upto bigint;
${keysTable("keys")}
declare @arrived table (number bigint not null primary key, seq bigint not null, partition_key nvarchar(255) ${binary} not null);

insert into @keys (partition_key)
select distinct a.partition_key
from (
  select top (${mostArrivals}) r.partition_key
  from ${arrivedTable(n)} r with (${readPast})
  order by r.number
) a;

${lock(n, "head", "keys")}

select @upto = max(r.number) from ${arrivedTable(n)} r with (${readPast});

delete from ${arrivedTable(n)}
output deleted.number, deleted.seq, deleted.partition_key into @arrived (number, seq, partition_key)
from (
  select top (${mostArrivals}) r.number
  from ${arrivedTable(n)} r with (${readPast})
  inner join @keys k on k.partition_key = r.partition_key
  where r.number <= @upto
  order by r.number
) p, ${arrivedTable(n)} with (rowlock)
where ${n.bare("Arrived")}.number = p.number;

insert into ${lineTable(n)} (partition_key, seq)
select a.partition_key, a.seq
from @arrived a
inner join ${n.state} s on s.seq = a.seq
where s.status <> ${status.done} -- by hand, before it got in line
  and not exists (select 1 from ${lineTable(n)} l where l.seq = a.seq) -- a dead one that was replayed where it stood
order by a.number;

${readyHeads(n)}`;

/** Those that @items numbers are finished: the next of their keys have their turns. */
export const leave = (n: QueueNames): string => `${keysTable("keys")}

insert into @keys (partition_key)
select distinct m.partition_key
from openjson(@items) with (seq bigint '$') i
inner join ${n.message} m on m.seq = i.seq
where m.partition_key is not null;

${lock(n, "head", "keys")}

delete from ${lineTable(n)}
from openjson(@items) with (seq bigint '$') i, ${lineTable(n)} with (rowlock)
where ${n.bare("Line")}.seq = i.seq;

delete from ${arrivedTable(n)}
from openjson(@items) with (seq bigint '$') i, ${arrivedTable(n)} with (rowlock)
where ${n.bare("Arrived")}.seq = i.seq;

${readyHeads(n)}`;

/** Calls `leave` for those rows of `from`, a table with `seq` as `c`, that `which` is true of; for none it costs a look. */
export const letLeave = (
  n: QueueNames,
  from: string,
  which: string,
): string => `if exists (select 1 from ${from} c where ${which})
begin
  declare @left nvarchar(max);
  select @left = N'[' + string_agg(cast(c.seq as nvarchar(max)), N',') + N']' from ${from} c where ${which};
  exec ${n.object("_Leave")} @items = @left;
end`;
