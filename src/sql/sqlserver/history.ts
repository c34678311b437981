import { status } from "../dialect.js";
import { createdColumn, type QueueNames, queueId } from "../names.js";
import { keptAttempts } from "../store-options.js";
import {
  addMs,
  archiveTable,
  attemptsTable,
  binary,
  doneTable,
  keyDefinition,
  quote,
  unicodeLiteral,
} from "./expressions.js";
import { leavePartition } from "./partitions.js";
import {
  atomically,
  columns,
  deleteEach,
  isSameKey,
  keyOfMessage,
  lockRow,
  lockTarget,
  messageTable,
  ownRow,
  type Procedure,
  procedure,
  readPast,
  rowByRow,
  seqs,
  stateTable,
} from "./procedure.js";

export const attemptRows = (n: QueueNames): string => `create table ${attemptsTable(n)} (
  seq bigint not null,
  number bigint identity(1, 1) not null,
  attempt int not null,
  ended_at datetime2(3) not null,
  worker uniqueidentifier null,
  error nvarchar(max) null,
  constraint ${n.bare("Attempts_PK")} primary key clustered (seq, number)
)`;

/** Inserts the rows of a query, and deletes older attempts of the messages in @changed. */
export const recordAttempts = (
  n: QueueNames,
  query: string,
): string => `insert into ${attemptsTable(n)} (seq, attempt, ended_at, worker, error)
${query};

delete from ${attemptsTable(n)}
from @changed c, ${attemptsTable(n)} with (${lockRow})
where ${n.bare("Attempts")}.seq = c.seq and ${n.bare("Attempts")}.number <= (
  select x.number from ${attemptsTable(n)} x with (forceseek, readcommittedlock) where x.seq = c.seq
  order by x.number desc offset ${keptAttempts} rows fetch next 1 row only
);`;

/** Done messages are apart from the others: months of them make claims no slower. */
export const doneRows = (n: QueueNames): readonly string[] => [
  `create table ${doneTable(n)} (
  seq bigint not null,
  processed_at datetime2(3) not null,
  attempt int not null,
  processed_by nvarchar(100) null,
  -- of a message of an inbox that an operator has ended: archived or replaced
  resolution varchar(10) ${binary} null,
  last_error nvarchar(max) null,
  constraint ${n.bare("Done_PK")} primary key clustered (seq)
)`,
  `create index ${n.bare("Done_Resolution")} on ${doneTable(n)} (seq) include (resolution) where resolution is not null`,
];

export const finishedTable =
  "declare @finished table (seq bigint not null primary key, attempt int not null, last_error nvarchar(max) null, keyed bit null);";

/** Moves states into @finished. `from`: the FROM clause, which names the target again, with its hints. */
export const finish = (n: QueueNames, from: string, where: string): string => `delete from ${n.state}
output deleted.seq, deleted.attempt, deleted.last_error, deleted.keyed into @finished (seq, attempt, last_error, keyed)
from ${from}
where ${where};`;

/** The done rows of @finished. `more`: the values of other columns. */
export const insertDone = (
  n: QueueNames,
  lastError: string,
  more: Readonly<Record<string, string>> = {},
): string => `insert into ${doneTable(n)} (${["seq", "processed_at", "attempt", "last_error", ...Object.keys(more)].join(", ")})
select ${["f.seq", "@now", "f.attempt", lastError, ...Object.values(more)].join(", ")} from @finished f;`;

/** Dead messages that operators have archived. Nothing but an operator's procedure writes it, and nothing deletes its rows. */
export const archiveRows = (n: QueueNames): string => `create table ${archiveTable(n)} (
  seq bigint not null,
  ${keyDefinition(n)},
  topic nvarchar(255) ${binary} not null,
  type nvarchar(255) ${binary} null,
  partition_key nvarchar(255) ${binary} null,
  payload nvarchar(max) not null,
  correlation_id nvarchar(255) ${binary} null,
  headers nvarchar(max) null,
  enqueued_at datetime2(3) not null,
  attempt int not null,
  last_error nvarchar(max) null,
  error_group varchar(16) ${binary} null,
  -- the failed attempts, as JSON
  attempts nvarchar(max) not null,
  died_at datetime2(3) not null,
  archived_at datetime2(3) not null,
  archived_by nvarchar(255) not null,
  constraint ${n.bare("Archive_PK")} primary key clustered (seq)
)`;

/** Copies the messages of @gone into the archive. */
const insertArchived = (n: QueueNames): string => {
  const source = n.kind === "inbox" ? "source" : "id";
  return `insert into ${archiveTable(n)} (seq, ${source}, message_id, topic, type, partition_key, payload, correlation_id, headers,
  enqueued_at, attempt, last_error, error_group, attempts, died_at, archived_at, archived_by)
select m.seq, m.${source}, m.message_id, m.topic, m.type, m.partition_key, m.payload, m.correlation_id, m.headers,
  m.${createdColumn(n)}, s.attempt, s.last_error, s.error_group, coalesce((
    select a.attempt as attempt, datediff_big(millisecond, '1970-01-01', a.ended_at) as endedAt, lower(a.worker) as worker, a.error as error
    from ${attemptsTable(n)} a with (forceseek)
    where a.seq = g.seq
    order by a.number
    for json path, include_null_values
  ), N'[]'), s.died_at, @now, @who
from @gone g
inner join ${n.message} m with (forceseek) on m.seq = g.seq
inner join ${n.state} s with (forceseek) on s.seq = g.seq;`;
};

/** Within a statement that writes to the table. */
const operationsName = quote("oncebox_operations");

export const operationsTable = (schema: string): string => `${quote(schema)}.${operationsName}`;

/** What operators have done: to dead messages, and how far they came; pauses and limits. */
export const createOperations = (schema: string): string =>
  `if object_id(${unicodeLiteral(operationsTable(schema))}, N'U') is null
  create table ${operationsTable(schema)} (
    id uniqueidentifier not null,
    started_at datetime2(3) not null,
    who nvarchar(255) not null,
    action nvarchar(20) not null,
    queue nvarchar(100) ${binary} not null,
    filter nvarchar(max) not null,
    matched bigint not null constraint ${quote("oncebox_operations_Matched")} default 0,
    done bigint not null constraint ${quote("oncebox_operations_Done")} default 0,
    last_seq bigint not null constraint ${quote("oncebox_operations_LastSeq")} default 0,
    ended_at datetime2(3) null,
    -- who went on with it last, after an interruption
    resumed_by nvarchar(255) null,
    resumed_at datetime2(3) null,
    constraint ${quote("oncebox_operations_PK")} primary key clustered (id)
  )`;

/**
 * Locks as a delivery does: all messages through the index of their keys, in the order of the keys, and then their states, in the order
 * of the numbers. Through their own rows, it would hold what a delivery that has locked the key waits for, and then want the key. The
 * keys are read before: they never change.
 */
function takeDead(n: QueueNames, body: string): string {
  const key = keyOfMessage(n);
  return `declare @asked table (
  ${keyDefinition(n)}
);
declare @found table (place int identity(1, 1) not null primary key, seq bigint not null);
declare @gone table (seq bigint not null primary key, keyed bit null);

insert into @asked (${key})
select ${columns("k", key)}
from ${seqs}
inner join ${n.message} k with (forceseek) on k.seq = i.seq;

${atomically(`insert into @found (seq)
select m.seq
from (select top (1000000) ${columns("j", key)} from @asked j order by ${columns("j", key)}) i
inner join ${n.message} m with (${lockRow}) on ${isSameKey(n, "m", "i")}
-- the places ask for the order in which the rows are locked
order by ${columns("i", key)} ${rowByRow};

insert into @gone (seq, keyed)
select f.seq, s.keyed
from (select top (1000000) g.seq from @found g order by g.seq) f
inner join ${n.state} s with (${ownRow}, ${lockRow}) on s.seq = f.seq
where s.status = ${status.dead} ${rowByRow};

${body}`)}`;
}

const returnGone = "select g.seq from @gone g;";

const discard = (n: QueueNames) => `${takeDead(
  n,
  `${leavePartition(n, "@gone", "c.keyed = 1")}

${deleteEach(n, "Messages", "@gone")}

${deleteEach(n, "State", "@gone")}

${deleteEach(n, "Attempts", "@gone")}`,
)}

${returnGone}`;

/** The key stays, and is purged with other Done messages. What it contained is in the archive. */
const keepAsDone = (n: QueueNames) => `${leavePartition(n, "@gone", "c.keyed = 1")}

update ${n.message}
set payload = N'', headers = null
from @gone g, ${n.message} with (${lockRow})
where ${messageTable(n)}.seq = g.seq;

${finish(n, `@gone g, ${n.state} with (${lockRow})`, `${stateTable(n)}.seq = g.seq`)}

${insertDone(n, "f.last_error", { resolution: "@resolution" })}

${deleteEach(n, "Attempts", "@gone")}`;

/** An outbox has no use for the keys. It discards what it has archived, no more: of other @items, one may have died meanwhile. */
const discardGone = (
  n: QueueNames,
) => `set @items = (select N'[' + string_agg(cast(g.seq as nvarchar(max)), N',') + N']' from @gone g);
exec ${n.object("_Discard")} @items = @items;`;

const archive = (n: QueueNames) =>
  n.kind === "inbox"
    ? `${finishedTable}
${takeDead(n, `${insertArchived(n)}\n\n${keepAsDone(n)}`)}\n\n${returnGone}`
    : takeDead(n, `${insertArchived(n)}\n\n${discardGone(n)}`);

const addOperation = (
  n: QueueNames,
) => `insert into ${operationsTable(n.schema)} (id, started_at, who, action, queue, filter)
values (@id, @now, @who, @action, ${unicodeLiteral(queueId(n))}, @filter);`;

const moveOperation = (n: QueueNames) => `update ${operationsTable(n.schema)} with (${lockTarget})
set matched = @matched, done = @done, last_seq = @last_seq, ended_at = case when @ended = 1 then @now end,
  resumed_by = coalesce(@who, resumed_by), resumed_at = case when @who is null then resumed_at else @now end
where id = @id;`;

/** Of ended operations: one that goes on is needed to resume it. Whoever works on one is not waited for. */
const purgeOperations = (
  n: QueueNames,
) => `delete top (@limit) from ${operationsTable(n.schema)} with (${readPast})
where queue = ${unicodeLiteral(queueId(n))} and ended_at < ${addMs(n, "@now", "-@retention_ms")};

select @@rowcount as deleted;`;

export const deadProcedures = (n: QueueNames): readonly Procedure[] => [
  procedure(n, "Discard", discard(n)),
  procedure(n, "Archive", archive(n)),
  procedure(n, "AddOperation", addOperation(n)),
  procedure(n, "MoveOperation", moveOperation(n)),
  procedure(n, "PurgeOperations", purgeOperations(n)),
];
