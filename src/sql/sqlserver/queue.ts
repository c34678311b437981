import {
  type InboxStatements,
  type OutboxStatements,
  type QueueStatementOptions,
  type QueueStatements,
  status,
} from "../dialect.js";
import { type SqlStatement, statement } from "../driver.js";
import type { QueueNames } from "../names.js";
import { controlProcedures } from "./controls.js";
import { addMs, binary, doneTable } from "./expressions.js";
import { deadProcedures } from "./history.js";
import { keyProcedures } from "./keys.js";
import { abandon, ack, claim, fail, release, renew, replay } from "./leases.js";
import { expireDead, purge, reap } from "./maintenance.js";
import { applyChanges, joinPartition, lockArrivals } from "./partitions.js";
import { plainProcedure, withIdReturned } from "./plain-routines.js";
import {
  atomically,
  beginUnlessOpen,
  changeFirst,
  deleteEach,
  findOrInsert,
  lockRow,
  type Procedure,
  procedure,
  readPast,
  rowByRow,
  seqs,
} from "./procedure.js";
import { acknowledged, callProcedure, enqueued, parametersOf } from "./procedure-calls.js";
import { attempts, due, get, list, oldestDue, resolve, stats } from "./reads.js";
import {
  alreadyProcessed,
  columnList,
  insertStates,
  mark,
  messagesTable,
  outboxColumns,
  receive,
} from "./receive-routines.js";
import { readUnhandled, recordUnhandled } from "./unhandled.js";

export const inboxStatements = (n: QueueNames, options: QueueStatementOptions): InboxStatements => ({
  ...queueStatements(n, options),
  alreadyProcessed: callProcedure(n, "already processed", "AlreadyProcessed"),
});

export const outboxStatements = (n: QueueNames, options: QueueStatementOptions): OutboxStatements => ({
  ...queueStatements(n, options),
  enqueue: callProcedure(n, "enqueue", "EnqueueMessages", {}, enqueued.one),
  enqueueMany: callProcedure(n, "enqueue many", "EnqueueMessages", {}, enqueued.many),
  enqueueKeyed: callProcedure(n, "enqueue keyed", "EnqueueMessages", {}, enqueued.many),
  enqueueOnce: callProcedure(n, "enqueue once", "EnqueueMessages", {}, enqueued.many),
  expireDead: callProcedure(n, "expire dead", "ExpireDead"),
  listDone: callProcedure(n, "list done", "ListDone"),
  resend: callProcedure(n, "resend", "Resend"),
  makeDue: callProcedure(n, "make due", "MakeDue"),
});

/** Each statement calls one procedure, so a database user needs only EXECUTE. */
function queueStatements(n: QueueNames, { blockOnDead }: QueueStatementOptions): QueueStatements {
  const blocks = blockOnDead ? "1" : "0";
  return {
    claim: callProcedure(n, "claim", "Claim", { blocks }),
    ack: callProcedure(n, "ack", "Ack", {}, acknowledged),
    abandon: callProcedure(n, "abandon", "Abandon", { blocks }),
    fail: callProcedure(n, "fail", "Fail", { blocks }),
    release: callProcedure(n, "release", "Release"),
    renew: callProcedure(n, "renew", "Renew"),
    reap: callProcedure(n, "reap", "Reap", { blocks }),
    purge: callProcedure(n, "purge", "Purge", { status: String(status.done) }),
    purgeDead: callProcedure(n, "purge dead", "Purge", { status: String(status.dead) }),
    purgeOperations: callProcedure(n, "purge operations", "PurgeOperations"),
    resolve: callProcedure(n, "resolve", "Resolve"),
    get: callProcedure(n, "get", "Get"),
    attempts: callProcedure(n, "attempts", "Attempts"),
    list: callProcedure(n, "list", "List"),
    stats: callProcedure(n, "stats", "Stats"),
    oldestDue: callProcedure(n, "oldest_due", "OldestDue"),
    replay: callProcedure(n, "replay", "Replay"),
    recordUnhandled: callProcedure(n, "record unhandled", "RecordUnhandled"),
  };
}

/**
 * Calls the procedures of both queues in one round trip. The order of its locks is that of docs/decisions/0023: the outbox's partition
 * keys, then the states of the handled messages. So a settlement that waits for a key of a long transaction does not hold its states
 * meanwhile: their leases can be renewed, and the messages delivered again. What Enqueue locks then is new, but for natural keys:
 * there it waits for the transaction that enqueued the same one, while it holds the states. A circle needs that transaction to touch
 * one of the states, by receiving the same message again; the server ends it, and the call is repeated.
 */
export const ackAndEnqueue = (n: QueueNames, outbox: QueueNames): SqlStatement =>
  statement(
    "ack and enqueue",
    `set nocount, xact_abort on;
declare @acked nvarchar(max) = N'';
${beginUnlessOpen(`if @keyed = 1 exec ${outbox.object("_LockKeys")} @items = @outgoing;
exec ${n.object("_Ack")} @owner = @owner, @items = @items, @processed_by = @processed_by, @acked = @acked output;
exec ${outbox.object("_EnqueueMessages")} @items = @outgoing, @handled = @acked, @own = @outermost;`)}`,
  );

/** Calls the procedures of both queues in one round trip. Returns no rows in the usual case. */
export const pollStatement = (inbox: QueueNames, outbox: QueueNames): SqlStatement =>
  statement(
    "poll",
    `set nocount on;
declare @inbox int, @outbox int;
exec @inbox = ${inbox.object("_Due")};
exec @outbox = ${outbox.object("_Due")};
select 'inbox' as queue where @inbox = 1
union all
select 'outbox' as queue where @outbox = 1;`,
  );

/** Everything that `migrate` creates for the statements to call. */
export const procedures = (n: QueueNames): readonly Procedure[] => [
  ...queueProcedures(n),
  ...(n.kind === "inbox" ? inboxProcedures(n) : outboxProcedures(n)),
];

const queueProcedures = (n: QueueNames) => [
  // before those that call it: the server warns of a procedure that is not there
  procedure(n, "ApplyPartitionChanges", atomically(applyChanges(n))),
  procedure(n, "Claim", claim(n)),
  procedure(n, "Ack", ack(n)),
  procedure(n, "Abandon", abandon(n)),
  procedure(n, "Fail", fail(n)),
  procedure(n, "Release", release(n)),
  procedure(n, "Renew", renew(n)),
  procedure(n, "Reap", reap(n)),
  procedure(n, "Purge", purge(n)),
  procedure(n, "Resolve", resolve(n)),
  procedure(n, "Get", get(n)),
  procedure(n, "Attempts", attempts(n)),
  procedure(n, "List", list(n)),
  procedure(n, "Stats", stats(n)),
  procedure(n, "OldestDue", oldestDue(n)),
  procedure(n, "Due", due(n)),
  procedure(n, "Replay", replay(n)),
  procedure(n, "RecordUnhandled", recordUnhandled(n)),
  procedure(n, "Unhandled", readUnhandled(n)),
  ...deadProcedures(n),
  ...controlProcedures(n),
];

const inboxProcedures = (n: QueueNames) => [
  ...keyProcedures(n),
  procedure(n, "ReceiveMessages", receive(n), parametersOf(n, "ReceiveMessages")),
  plainProcedure(n, "Receive"),
  procedure(n, "AlreadyProcessed", alreadyProcessed(n)),
  procedure(n, "Mark", mark(n)),
];

const outboxProcedures = (n: QueueNames) => [
  procedure(n, "EnqueueMessages", enqueue(n), parametersOf(n, "EnqueueMessages"), withIdReturned),
  plainProcedure(n, "Enqueue"),
  procedure(n, "LockKeys", lockKeys(n)),
  procedure(n, "ExpireDead", expireDead(n)),
  procedure(n, "ListDone", listDone(n)),
  procedure(n, "Resend", resend(n)),
  procedure(n, "MakeDue", makeDue(n)),
];

/**
 * The caller makes the ids. An enqueue whose result was lost can therefore be repeated and adds nothing. The id
 * of one message is returned in @id, and those of several in rows.
 */
const enqueue = (n: QueueNames) => `${messagesTable(outboxColumns)}
declare @known table (position int not null primary key, id uniqueidentifier not null);
declare @added table (
  seq bigint not null primary key, partition_key nvarchar(255) ${binary} null, due_at datetime2(3) null, expires_at datetime2(3) null
);

${beginUnlessOpen(`${lockArrivals(n)}

-- what a message led to that was not acknowledged is left out
if @handled is not null
  delete from @messages
  where position in (
    select cast(a.[key] as int)
    from openjson(@items) a
    where cast(json_value(a.value, '$.handled') as bigint) not in (select h.seq from openjson(@handled) with (seq bigint) h)
  );

${findOrInsert(
  findNaturalKeys(n),
  `insert into ${n.message} (${columnList(outboxColumns)}, created_at)
output inserted.seq, inserted.partition_key, inserted.due_at, inserted.expires_at into @added (seq, partition_key, due_at, expires_at)
select ${columnList(outboxColumns, "i.")}, @now
from @messages i
where not exists (select 1 from ${n.message} m with (forceseek, readcommittedlock) where m.id = i.id)
  and not exists (select 1 from @known k where k.position = i.position)
order by i.position;`,
  { isCallers: "@outermost = 0 and @own = 0", isOurs: "@outermost = 1 or @own = 1" },
)}

${insertStates(n, "@added")}`)}

if @handled is not null
  select h.seq, cast(null as uniqueidentifier) as id, cast(null as uniqueidentifier) as known_id
  from openjson(@handled) with (seq bigint) h
  union all
  select cast(null as bigint), i.id, k.id from @known k inner join @messages i on i.position = k.position;
else if @items is null
  select @id = k.id from @known k;
else if exists (select 1 from @known)
  select i.id, k.id as known_id from @known k inner join @messages i on i.position = k.position;`;

/** Locks the partition keys of messages that this transaction is going to enqueue. */
const lockKeys = (n: QueueNames) => `declare @messages table (partition_key nvarchar(255) ${binary} null);

insert into @messages (partition_key)
select i.partition_key
from openjson(@items) with (partition_key nvarchar(255)) i
where i.partition_key is not null;

${lockArrivals(n)}`;

/** Messages whose natural keys the outbox has. Their ids may be the caller's own: then a lost result is repeated. */
const findNaturalKeys = (n: QueueNames) => `delete from @known;

if exists (select 1 from @messages i where i.natural_key is not null)
  insert into @known (position, id)
  select i.position, m.id
  from (select top (1000000) j.position, j.topic, j.natural_key from @messages j order by j.topic, j.natural_key) i
  inner join ${n.message} m with (forceseek, readcommittedlock)
    on m.topic = i.topic and m.natural_key = i.natural_key and m.natural_key is not null;`;

const listDone = (n: QueueNames) => `select top (@limit) d.seq, m.id, m.topic, d.processed_at
from ${doneTable(n)} d with (${readPast})
inner join ${n.message} m with (forceseek) on m.seq = d.seq
where d.seq > @after_seq
-- by each row: the number that the done rows begin behind could be sought in the messages, too
order by d.seq ${rowByRow};`;

/**
 * Done messages are sent again. The message is locked first, as by a purge; and the state exists before the done row goes, so
 * that a read finds one of them.
 */
const resend = (
  n: QueueNames,
) => `declare @sent table (seq bigint not null primary key, keyed bit null, last_error nvarchar(max) null);

${atomically(`insert into @sent (seq, keyed, last_error)
select m.seq, case when m.partition_key is not null then 1 end, d.last_error
from ${seqs}
inner join ${n.message} m with (${lockRow}) on m.seq = i.seq
-- the message is locked before its done row
inner join ${doneTable(n)} d with (${lockRow}) on d.seq = m.seq ${rowByRow};

insert into ${n.state} (seq, status, visible_at, expires_at, last_error, keyed)
select c.seq, case when c.keyed = 1 then ${status.blocked} else ${status.ready} end, @now, ${addMs(n, "@now", "@ttl_ms")}, c.last_error, c.keyed
from @sent c;

${deleteEach(n, "Done", "@sent")}

${joinPartition(n, "@sent", "c.keyed = 1")}`)}

select c.seq from @sent c;`;

function makeDue(n: QueueNames): string {
  const which = (s: string) =>
    `${s}.status = ${status.ready} and ${s}.visible_at > @now and ${s}.locked_until is null and ${s}.last_error ${binary} = @error ${binary}`;
  return `${changeFirst(n, "visible_at = @now", { which, order: "r.visible_at, r.seq" })}

select c.seq from @changed c;`;
}
