import { status } from "../../dialect.js";
import type { QueueNames } from "../../names.js";
import { binary } from "../expressions.js";
import { lockArrivals, pendingArrivalsTable } from "../partitions.js";
import { indented, stateTable } from "./procedure.js";

/**
 * The rows of `from` (a table with `seq`, alias `c`) that match `which` and have a partition key become pending arrivals:
 * they are blocked until they are the heads of their partition queues.
 */
export const rejoinPartition = (
  n: QueueNames,
  from: string,
  which: string,
) => `if exists (select 1 from ${from} c where ${which})
begin
  declare @rejoining table (seq bigint not null primary key, partition_key nvarchar(255) ${binary} not null);

  insert into @rejoining (seq, partition_key)
  select c.seq, m.partition_key
  from ${from} c
  inner join ${n.message} m on m.seq = c.seq
  where ${which} and m.partition_key is not null;

${indented(lockArrivals(n, "rejoining_keys", "@rejoining"))}

  update ${n.state}
  set status = ${status.blocked}, keyed = 1
  from @rejoining b, ${n.state} with (rowlock)
  where ${stateTable(n)}.seq = b.seq;

  insert into ${pendingArrivalsTable(n)} (seq, partition_key)
  select b.seq, b.partition_key
  from @rejoining b
  where not exists (select 1 from ${pendingArrivalsTable(n)} a where a.seq = b.seq)
  order by b.seq;
end`;
