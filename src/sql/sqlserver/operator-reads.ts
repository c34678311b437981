import { mostSources } from "../defaults.js";
import { status } from "../dialect.js";
import { bornAt, keyColumns, type QueueNames } from "../names.js";
import { attemptsTable } from "./attempts.js";
import { asBit } from "./expressions.js";
import { declareMoves, movedQueue } from "./partitions.js";
import { isKeyOf, keyIndex } from "./procedures/find-by-key.js";
import { seekEach } from "./procedures/procedure.js";
import { columns } from "./procedures/rows.js";
import type { Read } from "./read-statement.js";

/** Each part by an index of its own: a condition on all of them would read the rows of all Done messages. */
function unfinished(n: QueueNames): string {
  const parts = [
    `${n.state} s with (index(${n.bare("_Ready")})) where s.status = ${status.ready}`,
    `${n.state} s with (index(${n.bare("_Held")})) where s.status = ${status.held}`,
    `${n.state} s with (index(${n.bare("_Parked")})) where s.status = ${status.parked}`,
    `${movedQueue(n)} q inner join ${n.state} s with (forceseek) on s.seq = q.seq where s.status = ${status.blocked}`,
  ];
  return `declare @count bigint = 0;
${declareMoves(n)}

${parts.map((rows) => `select @count = @count + count_big(*) from (select top (@limit) s.seq from ${rows}) r;`).join("\n")}

select @count as [count], @now as now;`;
}

/** Counts rows by bucket. `rows` has `seq` and `happened_at`, which is null where it has not happened. */
const byBucket = (rows: string) => `select b.bucket, count_big(*) as [count], min(b.seq) as first_seq
from (
  select r.seq, case
      when r.happened_at >= @since then cast(floor(datediff_big(millisecond, @since, r.happened_at) / @bucket_ms) as int)
      else -1
    end as bucket
  from (
    select top (@limit) ${rows}
  ) r
) b
group by b.bucket;`;

const enqueuedBefore = (n: QueueNames) =>
  byBucket(
    `m.seq, m.${bornAt(n)} as happened_at from ${n.message} m where m.seq < @before_seq order by m.seq desc`,
  );

const doneBefore = (n: QueueNames) =>
  byBucket(
    `s.seq, case when s.status = ${status.done} then s.processed_at end as happened_at
    from ${n.state} s where s.seq < @before_seq order by s.seq desc`,
  );

const diedBefore = (n: QueueNames) =>
  byBucket(
    `s.seq, s.died_at as happened_at
    from ${n.state} s with (index(${n.bare("_Dead")})) where s.status = ${status.dead} and s.seq < @before_seq order by s.seq desc`,
  );

const blockedPartitions = (n: QueueNames) => `${declareMoves(n)}

select top (@limit) h.partition_key, h.waiting, (
    select w.${bornAt(n)}
    from (
      select top (1) b.seq
      from ${movedQueue(n)} b
      where b.partition_key = h.partition_key and b.position > h.position
      order by b.position
    ) f
    inner join ${n.message} w with (forceseek) on w.seq = f.seq
  ) as waiting_since, ${columns("m", keyColumns(n))}, m.topic, s.status,
  ${asBit("s.locked_until is not null")} as leased, s.attempt, s.last_error, s.visible_at as next_attempt_at, s.died_at
from (
  select q.partition_key, min(q.position) as position, count_big(*) - 1 as waiting
  from ${movedQueue(n)} q
  group by q.partition_key
) h
cross apply (
  select b.seq from ${movedQueue(n)} b where b.partition_key = h.partition_key and b.position = h.position
) q
inner join ${n.state} s with (forceseek) on s.seq = q.seq
inner join ${n.message} m with (forceseek) on m.seq = q.seq
where s.status = ${status.dead} or (h.waiting > 0 and (s.status = ${status.parked} or s.locked_until is not null or s.attempt > 0 or s.visible_at > @now))
order by case when s.status = ${status.dead} then 0 else 1 end, h.waiting desc, h.partition_key ${seekEach};`;

/**
 * An inbox is asked for the message id source by source, each by one seek in the index of its keys: an index of message ids alone
 * would be paid for by every message.
 */
const findById = (n: QueueNames) =>
  n.kind === "inbox"
    ? `declare @source nvarchar(255) = (select min(m.source) from ${n.message} m with (${keyIndex(n)}, forceseek) where m.source >= N'');
declare @sources int = 0;
while @source is not null and @sources < ${mostSources}
begin
  insert into @found (seq)
  select m.seq
  from ${n.message} m with (${keyIndex(n)}, forceseek)
  where m.source = @source and m.message_id = @correlation_id and not exists (select 1 from @found f where f.seq = m.seq);
  set @source = (select min(m.source) from ${n.message} m with (${keyIndex(n)}, forceseek) where m.source > @source);
  set @sources = @sources + 1;
end`
    : `insert into @found (seq)
select m.seq from ${n.message} m with (${keyIndex(n)}, forceseek) where ${isKeyOf(n)} and not exists (select 1 from @found f where f.seq = m.seq);`;

// The index is filtered, and SQL Server uses it only where its condition stands in the query.
const byCorrelation = (n: QueueNames) => `declare @found table (seq bigint not null primary key);

insert into @found (seq)
select top (@limit) m.seq
from ${n.message} m with (index(${n.bare("_Correlation")}), forceseek)
where m.correlation_id = @correlation_id and m.correlation_id is not null
order by m.seq;

${findById(n)}

select top (@limit) ${columns("m", [...new Set([...keyColumns(n), "message_id"]), "topic", "correlation_id", "partition_key"])},
  s.status, ${asBit("s.locked_until is not null")} as leased, s.attempt, s.last_error,
  m.${bornAt(n)} as enqueued_at, (select min(a.ended_at) from ${attemptsTable(n)} a with (forceseek) where a.seq = f.seq) as first_failed_at,
  ${columns("s", ["processed_at", "died_at", ...(n.kind === "inbox" ? ["ended_as"] : [])])}
from @found f
inner join ${n.message} m with (forceseek) on m.seq = f.seq
inner join ${n.state} s with (forceseek) on s.seq = f.seq
order by f.seq ${seekEach};`;

const window = ["before_seq", "limit", "since", "bucket_ms"] as const;

export const operatorReads = (n: QueueNames) =>
  ({
    unfinished: { name: "unfinished", parameters: ["now", "limit"], body: unfinished(n) },
    enqueuedBefore: { name: "enqueued before", parameters: window, body: enqueuedBefore(n) },
    doneBefore: { name: "done before", parameters: window, body: doneBefore(n) },
    diedBefore: { name: "died before", parameters: window, body: diedBefore(n) },
    blockedPartitions: {
      name: "blocked partitions",
      parameters: ["now", "limit"],
      body: blockedPartitions(n),
    },
    byCorrelation: {
      name: "by correlation",
      parameters: ["correlation_id", "id", "limit"],
      body: byCorrelation(n),
    },
  }) satisfies Record<string, Read>;
