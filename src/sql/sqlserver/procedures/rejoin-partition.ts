import { status } from "../../dialect.js";
import type { QueueNames } from "../../names.js";
import { binary } from "../expressions.js";
import { arrivedTable, lockEnds } from "../partitions.js";
import { indented, stateOf } from "./procedure.js";

/** Those rows of `from`, a table with `seq` as `c`, that are `which` are behind others until they have got in line. */
export const comeBack = (
  n: QueueNames,
  from: string,
  which: string,
) => `if exists (select 1 from ${from} c where ${which})
begin
  declare @back table (seq bigint not null primary key, partition_key nvarchar(255) ${binary} not null);

  insert into @back (seq, partition_key)
  select c.seq, m.partition_key
  from ${from} c
  inner join ${n.message} m on m.seq = c.seq
  where ${which} and m.partition_key is not null;

${indented(lockEnds(n, "back_keys", "@back"))}

  update ${n.state}
  set status = ${status.blocked}, keyed = 1
  from @back b, ${n.state} with (rowlock)
  where ${stateOf(n)}.seq = b.seq;

  insert into ${arrivedTable(n)} (seq, partition_key)
  select b.seq, b.partition_key
  from @back b
  where not exists (select 1 from ${arrivedTable(n)} a where a.seq = b.seq)
  order by b.seq;
end`;
