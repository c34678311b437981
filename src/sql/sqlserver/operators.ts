import { type OperatorDialect, status } from "../dialect.js";
import { type SqlStatement, statement } from "../driver.js";
import { createdColumn, type QueueNames, queueId } from "../names.js";
import { maxSources } from "../store-options.js";
import { heldByPause, readPauses } from "./controls.js";
import { addMs, asBit, attemptsTable, binary, doneTable, unicodeLiteral } from "./expressions.js";
import { operationsTable } from "./history.js";
import { declareMoves, movedQueue } from "./partitions.js";
import {
  columns,
  deadIndex,
  isKeyOf,
  lockRow,
  messageKey,
  needsClock,
  readClock,
  readShortly,
  rowByRow,
  withState,
} from "./procedure.js";
import { callProcedure, filter, type ParameterName, parameterType } from "./procedure-calls.js";

export const sqlServerOperators: OperatorDialect = {
  changes(n) {
    const { nextDead, lockOperation, operations } = operatorReads(n);
    return {
      discard: callProcedure(n, "discard", "Discard"),
      archive: callProcedure(n, "archive", "Archive"),
      nextDead: readStatement(n, nextDead),
      addOperation: writeOperation(n, "add operation", "AddOperation"),
      lockOperation: readStatement(n, lockOperation),
      moveOperation: writeOperation(n, "move operation", "MoveOperation"),
      operations: readStatement(n, operations),
      putControl: callProcedure(n, "put control", "PutControl"),
      endControl: callProcedure(n, "end control", "EndControl"),
    };
  },
  reads(n) {
    const reads = operatorReads(n);
    return {
      deadGroups: readStatement(n, reads.deadGroups),
      countDead: readStatement(n, reads.countDead),
      controls: callProcedure(n, "controls", "Controls", {}, []),
      unhandled: callProcedure(n, "unhandled", "Unhandled"),
      unfinished: readStatement(n, reads.unfinished),
      enqueuedBefore: readStatement(n, reads.enqueuedBefore),
      doneBefore: readStatement(n, reads.doneBefore),
      diedBefore: readStatement(n, reads.diedBefore),
      blockedPartitions: readStatement(n, reads.blockedPartitions),
      byCorrelation: readStatement(n, reads.byCorrelation),
    };
  },
};

/** A read of operators. It is no procedure: operators may read the tables, and a DBA has less to review. See docs/decisions/0029. */
interface Read {
  /** For logs and errors, such as `dead groups`. */
  readonly name: string;
  readonly parameters: readonly ParameterName[];
  readonly body: string;
}

export function operatorReads(n: QueueNames) {
  const read = (name: string, parameters: readonly ParameterName[], body: string): Read => ({
    name,
    parameters,
    body,
  });
  const deadFilter = ["at", ...filter] as const;
  const byBucket = (name: string, rows: string) =>
    read(name, ["before_seq", "limit", "since", "bucket_ms"], countByBucket(rows));
  return {
    nextDead: read("next dead", [...deadFilter, "after_seq", "limit"], nextDead(n)),
    lockOperation: read("lock operation", ["id"], readOperation(n, ` with (${lockRow})`)),
    operations: read("operations", ["id", "limit"], listOperations(n)),
    deadGroups: read("dead groups", [...deadFilter, "limit"], deadGroups(n)),
    countDead: read("count dead", deadFilter, countDead(n)),
    unfinished: read("unfinished", ["limit"], unfinished(n)),
    enqueuedBefore: byBucket(
      "enqueued before",
      `m.seq, m.${createdColumn(n)} as happened_at from ${n.message} m where m.seq < @before_seq order by m.seq desc`,
    ),
    doneBefore: byBucket(
      "done before",
      `d.seq, d.processed_at as happened_at from ${doneTable(n)} d where d.seq < @before_seq order by d.seq desc`,
    ),
    diedBefore: byBucket(
      "died before",
      `s.seq, s.died_at as happened_at
    from ${n.state} s with (${deadIndex(n)}) where s.status = ${status.dead} and s.seq < @before_seq order by s.seq desc`,
    ),
    blockedPartitions: read("blocked partitions", ["limit"], blockedPartitions(n)),
    byCorrelation: read("by correlation", ["correlation_id", "id", "limit"], byCorrelation(n)),
  };
}

/**
 * The text is constant and its parameters have types, as those of a procedure, so its plan is reused. Each value is converted
 * to its type before the call. The isolation level that the text may set ends with it.
 */
function readStatement(n: QueueNames, read: Read): SqlStatement {
  const typed = read.parameters.map((one) => `@typed_${one} ${parameterType(n, one)} = @${one}`);
  const values = read.parameters.map((one) => `@${one} = @typed_${one}`);
  return statement(
    read.name,
    `declare ${typed.join(", ")};
exec sp_executesql ${unicodeLiteral(textOf(read))}, ${unicodeLiteral(declared(n, read).join(", "))}, ${values.join(", ")}`,
  );
}

/** The same as a batch without values, to look at its plan. */
export const readBatch = (n: QueueNames, read: Read): string =>
  `declare ${declared(n, read).join(", ")};\n${textOf(read)}`;

const declared = (n: QueueNames, { parameters }: Read): readonly string[] =>
  parameters.map((one) => `@${one} ${parameterType(n, one)}`);

const textOf = ({ body }: Read): string =>
  `set nocount on;
${needsClock(body) ? `${readClock}\n` : ""}${readShortly}
${body}`;

/** Writes by a procedure, and reads what it has written. */
function writeOperation(n: QueueNames, name: string, procedure: "AddOperation" | "MoveOperation") {
  const { text } = callProcedure(n, name, procedure);
  return statement(name, `${text};\n${readOperation(n)}`);
}

const readOperation = (n: QueueNames, hint = "") => `select ${operation}
from ${operationsTable(n.schema)} o${hint}
where o.id = @id and o.queue = ${unicodeLiteral(queueId(n))};`;

/** The unfinished first. */
const listOperations = (n: QueueNames) => `select top (@limit) ${operation}
from ${operationsTable(n.schema)} o
where o.queue = ${unicodeLiteral(queueId(n))} and (@id is null or o.id = @id)
order by case when o.ended_at is null then 0 else 1 end, o.started_at desc, o.id desc;`;

const operation = columns(
  "o",
  "id, started_at, who, action, queue, filter, matched, done, last_seq, ended_at, resumed_by, resumed_at",
);

/** The time to which ages refer: that of an operation's record, else now. */
const at = "coalesce(@at, @now)";

/** Dead messages `s` that match. A message's own row is read only where a condition needs it. */
const dead = (n: QueueNames) => `s.status = ${status.dead}
  and s.died_at <= ${at}
  and (@error_group is null or coalesce(s.error_group, '') = @error_group)
  and (@error is null or charindex(@error ${binary}, s.last_error ${binary}) > 0)
  and (@older_than_ms is null or s.died_at <= ${addMs(n, at, "-@older_than_ms")})
  and (@newer_than_ms is null or s.died_at >= ${addMs(n, at, "-@newer_than_ms")})
  and ((@topic is null and @source is null) or exists (
    select 1 from ${n.message} m with (forceseek)
    where m.seq = s.seq
      and (@topic is null or m.topic = @topic)
      and (@source is null or ${n.kind === "inbox" ? "m.source = @source" : "1 = 0"})
  ))`;

const fromDead = (n: QueueNames) => `from ${n.state} s with (${deadIndex(n)})`;

// Recompiled each time, so that the plan has no more than the conditions that are given.
const deadGroups = (n: QueueNames) => `declare @groups table (
  error_group varchar(16) ${binary} not null primary key, [count] bigint not null,
  first_at datetime2(3) not null, last_at datetime2(3) not null, seq bigint not null
);

insert into @groups (error_group, [count], first_at, last_at, seq)
select top (@limit) coalesce(s.error_group, ''), count_big(*), min(s.died_at), max(s.died_at), max(s.seq)
${fromDead(n)}
where ${dead(n)}
group by coalesce(s.error_group, '')
order by count_big(*) desc, coalesce(s.error_group, '')
option (recompile);

select g.error_group, g.[count] as [count], g.first_at, g.last_at, s.last_error, ${messageKey(n)}
from @groups g
inner join ${n.state} s with (forceseek) on s.seq = g.seq
inner join ${n.message} m with (forceseek) on m.seq = g.seq
order by g.[count] desc, g.error_group;`;

const countDead = (n: QueueNames) => `select count_big(*) as [count]
${fromDead(n)}
where ${dead(n)}
option (recompile);`;

const nextDead = (n: QueueNames) => `select top (@limit) s.seq
${fromDead(n)}
where s.seq > @after_seq and ${dead(n)}
order by s.seq
option (recompile);`;

const unfinished = (n: QueueNames) => `select count_big(*) as [count], @now as now
from (
  select top (@limit) s.seq from ${n.state} s
  where s.status in (${status.ready}, ${status.processing}, ${status.blocked})
) u;`;

/** Counts rows by bucket. `rows` has `seq` and `happened_at`, which is null where it has not happened. */
const countByBucket = (rows: string) => `select b.bucket, count_big(*) as [count], min(b.seq) as first_seq
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

const blockedPartitions = (n: QueueNames) => {
  const isPaused = `@pauses = 1 and s.status <> ${status.dead} and ${heldByPause(n, "s")} = 1`;
  return `${declareMoves(n)}
${readPauses(n)}

select top (@limit) h.partition_key, h.waiting, (
    select w.${createdColumn(n)}
    from (
      select top (1) b.seq
      from ${movedQueue(n)} b
      where b.partition_key = h.partition_key and b.position > h.position
      order by b.position
    ) f
    inner join ${n.message} w with (forceseek) on w.seq = f.seq
  ) as waiting_since, ${messageKey(n)}, m.topic, s.status,
  ${asBit("s.locked_until is not null")} as leased, ${asBit(isPaused)} as paused, s.attempt, s.last_error,
  coalesce(s.reclaimable_at, s.visible_at) as next_attempt_at, s.died_at
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
where s.status = ${status.dead} or (h.waiting > 0 and (s.locked_until is not null or s.attempt > 0
  or coalesce(s.reclaimable_at, s.visible_at) > @now or (${isPaused})))
order by case when s.status = ${status.dead} then 0 else 1 end, h.waiting desc, h.partition_key;`;
};

/**
 * An inbox is asked for the message id source by source, each by one seek in the index of its keys: an index of only message ids
 * would be paid for by every message.
 */
const findById = (n: QueueNames) =>
  n.kind === "inbox"
    ? `declare @source nvarchar(255) = (select min(m.source) from ${n.message} m with (forceseek) where m.source >= N'');
declare @sources int = 0;
while @source is not null and @sources < ${maxSources}
begin
  insert into @found (seq)
  select m.seq
  from ${n.message} m with (forceseek)
  where m.source = @source and m.message_id = @correlation_id and not exists (select 1 from @found f where f.seq = m.seq);
  set @source = (select min(m.source) from ${n.message} m with (forceseek) where m.source > @source);
  set @sources = @sources + 1;
end`
    : `insert into @found (seq)
select m.seq from ${n.message} m with (forceseek) where ${isKeyOf(n)} and not exists (select 1 from @found f where f.seq = m.seq);`;

// The index is filtered, and SQL Server uses it only where its condition stands in the query.
const byCorrelation = (n: QueueNames) => `declare @found table (seq bigint not null primary key);

insert into @found (seq)
select top (@limit) m.seq
from ${n.message} m with (forceseek)
where m.correlation_id = @correlation_id and m.correlation_id is not null
order by m.seq;

${findById(n)}

select top (@limit) ${columns("m", `${n.kind === "inbox" ? "source" : "id"}, message_id, topic, correlation_id, partition_key`)},
  coalesce(s.status, ${status.done}) as status, ${asBit("s.locked_until is not null")} as leased,
  coalesce(s.attempt, d.attempt, 0) as attempt, coalesce(s.last_error, d.last_error) as last_error,
  m.${createdColumn(n)} as enqueued_at, (select min(a.ended_at) from ${attemptsTable(n)} a with (forceseek) where a.seq = f.seq) as first_failed_at,
  d.processed_at, s.died_at, d.resolution
from @found f
inner join ${n.message} m with (forceseek) on m.seq = f.seq
${withState(n, "f.seq")}
-- the state before the done row: an acknowledgement deletes the one and inserts the other
order by f.seq ${rowByRow};`;
