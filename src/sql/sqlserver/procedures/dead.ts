import { status } from "../../dialect.js";
import { keyColumns, type QueueNames, queueId } from "../../names.js";
import { insertArchived } from "../archive.js";
import { deleteAttempts, deleteStates } from "../attempts.js";
import { addMs, binary, unicodeLiteral } from "../expressions.js";
import { operationsName, operationsTable } from "../operations-table.js";
import { leavePartition } from "../partitions.js";
import { signatures } from "../signatures.js";
import {
  atomically,
  lockRow,
  lockTarget,
  type Procedure,
  procedure,
  readFreely,
  seekEach,
  seqs,
  skipLocked,
  stateTable,
} from "./procedure.js";
import { columns } from "./rows.js";

/** The time to which ages refer: that of an operation's record, else now. */
const at = "coalesce(@at, @now)";

/** Dead messages `s` that match. A message's own row is read only where a condition needs it. */
const dead = (n: QueueNames) => `s.status = ${status.dead}
  and s.died_at <= ${at}
  and (@error_group is null or coalesce(s.error_group, '') = @error_group)
  and (@error is null or charindex(@error ${binary}, s.last_error ${binary}) > 0)
  and (@older_than_ms is null or s.died_at <= ${addMs(at, "-@older_than_ms")})
  and (@newer_than_ms is null or s.died_at >= ${addMs(at, "-@newer_than_ms")})
  and ((@topic is null and @source is null) or exists (
    select 1 from ${n.message} m with (forceseek)
    where m.seq = s.seq
      and (@topic is null or m.topic = @topic)
      and (@source is null or ${n.kind === "inbox" ? "m.source = @source" : "1 = 0"})
  ))`;

const fromDead = (n: QueueNames) => `from ${n.state} s with (index(${n.bare("_Dead")}))`;

// Recompiled each time, so that the plan has no more than the conditions that are given.
const deadGroups = (n: QueueNames) => `${readFreely}
declare @groups table (
  error_group varchar(16) ${binary} not null primary key,
  [count] bigint not null,
  first_at datetime2(3) not null,
  last_at datetime2(3) not null,
  seq bigint not null
);

insert into @groups (error_group, [count], first_at, last_at, seq)
select top (@limit) coalesce(s.error_group, ''), count_big(*), min(s.died_at), max(s.died_at), max(s.seq)
${fromDead(n)}
where ${dead(n)}
group by coalesce(s.error_group, '')
order by count_big(*) desc, coalesce(s.error_group, '')
option (recompile);

select g.error_group as error_group, g.[count] as [count], g.first_at as first_at, g.last_at as last_at,
  s.last_error as last_error, ${columns("m", keyColumns(n))}
from @groups g
inner join ${n.state} s with (forceseek) on s.seq = g.seq
inner join ${n.message} m with (forceseek) on m.seq = g.seq
order by g.[count] desc, g.error_group
${seekEach};`;

const countDead = (n: QueueNames) => `${readFreely}
select count_big(*) as [count]
${fromDead(n)}
where ${dead(n)}
option (recompile);`;

const nextDead = (n: QueueNames) => `${readFreely}
select top (@limit) s.seq as seq
${fromDead(n)}
where s.seq > @after_seq and ${dead(n)}
order by s.seq
option (recompile);`;

/** The messages are locked before their states, as everywhere, and in the order of their numbers. */
const takeDead = (
  n: QueueNames,
  body: string,
) => `declare @gone table (seq bigint not null primary key, keyed bit null);

${atomically(`insert into @gone (seq, keyed)
select m.seq, s.keyed
from ${seqs}
inner join ${n.message} m with (${lockRow}) on m.seq = i.seq
inner join ${n.state} s with (${lockRow}) on s.seq = m.seq
where s.status = ${status.dead}
${seekEach};

${body}`)}

select g.seq as seq from @gone g;`;

const deleteGone = (n: QueueNames) => `${leavePartition(n, "@gone", "c.keyed = 1")}

delete from ${n.message}
from @gone g, ${n.message} with (${lockRow})
where ${n.bare("")}.seq = g.seq
${seekEach};

${deleteStates(n, "@gone")}`;

/** The key stays, and is purged with other Done messages. What it contained is in the archive. */
const keepAsDone = (n: QueueNames) => `${leavePartition(n, "@gone", "c.keyed = 1")}

update ${n.message}
set payload = N'', headers = null
from @gone g, ${n.message} with (${lockRow})
where ${n.bare("")}.seq = g.seq
${seekEach};

update ${n.state}
set status = ${status.done}, ended_as = @ended_as, processed_at = @now, died_at = null
from @gone g, ${n.state} with (${lockRow})
where ${stateTable(n)}.seq = g.seq
${seekEach};

${deleteAttempts(n, "@gone")}`;

const discard = (n: QueueNames) => takeDead(n, deleteGone(n));

const archive = (n: QueueNames) =>
  takeDead(n, `${insertArchived(n)}\n\n${n.kind === "inbox" ? keepAsDone(n) : deleteGone(n)}`);

const operation = columns("o", [
  "id",
  "started_at",
  "who",
  "action",
  "queue",
  "filter",
  "matched",
  "done",
  "last_seq",
  "ended_at",
  "resumed_by",
  "resumed_at",
]);

const readOperation = (n: QueueNames, hint = "") => `select ${operation}
from ${operationsTable(n.schema)} o${hint}
where o.id = @id and o.queue = ${unicodeLiteral(queueId(n))};`;

const addOperation = (
  n: QueueNames,
) => `insert into ${operationsTable(n.schema)} (id, started_at, who, action, queue, filter)
values (@id, @now, @who, @action, ${unicodeLiteral(queueId(n))}, @filter);

${readOperation(n)}`;

const moveOperation = (n: QueueNames) => `update ${operationsTable(n.schema)} with (${lockTarget})
set matched = @matched, done = @done, last_seq = @last_seq, ended_at = case when @ended = 1 then @now end,
  resumed_by = coalesce(@who, resumed_by), resumed_at = case when @who is null then resumed_at else @now end
where id = @id;

${readOperation(n)}`;

const listOperations = (n: QueueNames) => `select top (@limit) ${operation}
from ${operationsTable(n.schema)} o
where o.queue = ${unicodeLiteral(queueId(n))} and (@id is null or o.id = @id)
order by case when o.ended_at is null then 0 else 1 end, o.started_at desc, o.id desc;`;

/** Of ended operations: one that goes on is needed to resume it. Whoever works on one is not waited for. */
const purgeOperations = (n: QueueNames) => `declare @before datetime2(3) = ${addMs("@now", "-@retention_ms")};
declare @old table (id uniqueidentifier not null primary key);
declare @gone table (id uniqueidentifier not null primary key);

${atomically(`insert into @old (id)
select top (@limit) o.id
from ${operationsTable(n.schema)} o with (${skipLocked})
where o.queue = ${unicodeLiteral(queueId(n))} and o.ended_at < @before;

delete from ${operationsTable(n.schema)}
output deleted.id into @gone (id)
from @old old, ${operationsTable(n.schema)} with (${lockRow})
where ${operationsName}.id = old.id
${seekEach};`)}

select count(*) as deleted from @gone;`;

export const deadProcedures = (n: QueueNames): readonly Procedure[] => [
  procedure(n, "DeadGroups", signatures.DeadGroups, deadGroups(n)),
  procedure(n, "CountDead", signatures.CountDead, countDead(n)),
  procedure(n, "NextDead", signatures.NextDead, nextDead(n)),
  procedure(n, "Discard", signatures.Discard, discard(n)),
  procedure(n, "Archive", signatures.Archive, archive(n)),
  procedure(n, "AddOperation", signatures.AddOperation, addOperation(n)),
  procedure(n, "LockOperation", signatures.LockOperation, readOperation(n, ` with (${lockRow})`)),
  procedure(n, "MoveOperation", signatures.MoveOperation, moveOperation(n)),
  procedure(n, "Operations", signatures.Operations, listOperations(n)),
  procedure(n, "PurgeOperations", signatures.PurgeOperations, purgeOperations(n)),
];
