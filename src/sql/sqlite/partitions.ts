import { status } from "../dialect.js";
import type { QueueNames } from "../names.js";
import { partitionQueue, stepSeqs } from "./expressions.js";

/** The table, and the trigger that makes the new head ready when a message leaves its partition queue. */
export const createPartitionQueue = (n: QueueNames) => [
  `create table ${partitionQueue(n)} (
  position integer primary key,
  partition_key text not null,
  seq integer not null unique
) strict`,
  `create index ${n.bare("PartitionOrder")} on ${partitionQueue(n)} (partition_key, position)`,
  `create trigger ${n.object("MakeHeadReady")}
after delete on ${partitionQueue(n)}
begin
  update ${n.state}
  set status = ${status.ready}
  where status = ${status.blocked} and seq = (
    select seq from ${partitionQueue(n)} where partition_key = old.partition_key order by position limit 1
  );
end`,
];

/**
 * Steps: of the messages that the last step with rows returned, those that are to be handled and have a partition key join
 * their partition queues, in the order of their numbers. One that has a position keeps it. All but the heads are blocked.
 */
export const joinPartitions = (n: QueueNames): readonly string[] => [
  `insert into ${partitionQueue(n)} (partition_key, seq)
select m.partition_key, m.seq
from ${n.state} s
join ${n.message} m on m.seq = s.seq
where s.seq in ${stepSeqs} and s.keyed and s.status in (${status.ready}, ${status.blocked})
order by s.seq
on conflict (seq) do nothing`,
  `update ${n.state} as s
set status = ${status.blocked}
where s.seq in ${stepSeqs} and s.keyed and s.status = ${status.ready} and exists (
  select 1 from ${partitionQueue(n)} q
  join ${partitionQueue(n)} before on before.partition_key = q.partition_key and before.position < q.position
  where q.seq = s.seq
)`,
];

/** A step: the messages that the last step with rows returned leave their partition queues. Where there are none, it reads nothing. */
export const leavePartitions = (n: QueueNames, condition = "true") => `delete from ${partitionQueue(n)}
where seq in (
    select value from json_each(case when exists (select 1 from ${partitionQueue(n)}) then :seqs else '[]' end)
  )
  and ${condition}`;

/** A step: of these messages the dead ones leave their partition queues, unless dead messages block theirs. */
export const removeDead = (n: QueueNames, blockOnDead: boolean): readonly string[] =>
  blockOnDead
    ? []
    : [
        leavePartitions(
          n,
          `exists (select 1 from ${n.state} where seq = ${partitionQueue(n)}.seq and status = ${status.dead})`,
        ),
      ];

/** A step: also dead messages that are still in their partition queues because `deadInPartition` was "block" leave them. */
export const leaveAllDead = (n: QueueNames) => `delete from ${partitionQueue(n)}
where seq in (
  select q.seq from ${partitionQueue(n)} q
  cross join ${n.state} s on s.seq = q.seq -- in this order: there are more dead messages than messages in partition queues
  where s.status = ${status.dead}
)`;
