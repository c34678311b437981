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
import { addMs, backoffSql, binary, prepareBackoff } from "./expressions.js";
import { deadProcedures } from "./history.js";
import { keyProcedures } from "./keys.js";
import { abandon, ack, claim, fail, replay, resend, settle } from "./leases.js";
import { expireDead, purge, reap } from "./maintenance.js";
import { applyChanges, joinPartition, lockArrivals } from "./partitions.js";
import {
  atOwnLevel,
  atomically,
  doneTable,
  findOrInsert,
  keyIndex,
  owned,
  type Procedure,
  pickFrom,
  prepareLease,
  procedure,
  readPast,
  seekEach,
  skipLocked,
  stateTable,
} from "./procedure.js";
import { callProcedure, enqueued, signatures } from "./procedure-calls.js";
import { attempts, due, get, list, oldestDue, resolve, stats } from "./reads.js";
import {
  alreadyProcessed,
  columnList,
  mark,
  messagesTable,
  outboxColumns,
  receive,
} from "./receive-routines.js";

/** Each statement calls one procedure, so a database user needs only EXECUTE. */
function queueStatements(n: QueueNames, { blockOnDead }: QueueStatementOptions): QueueStatements {
  const blocks = blockOnDead ? "1" : "0";
  const get = callProcedure(n, "get", "Get", n.kind === "inbox" ? signatures.GetByKey : signatures.GetById);
  return {
    claim: callProcedure(n, "claim", "Claim", signatures.Claim, { blocks }),
    ack: callProcedure(n, "ack", "Ack", signatures.Ack),
    abandon: callProcedure(n, "abandon", "Abandon", signatures.Abandon, { blocks }),
    fail: callProcedure(n, "fail", "Fail", signatures.Fail, { blocks }),
    release: callProcedure(n, "release", "Release", signatures.Release),
    renew: callProcedure(n, "renew", "Renew", signatures.Renew),
    reap: callProcedure(n, "reap", "Reap", signatures.Reap, { blocks }),
    purge: callProcedure(n, "purge", "Purge", signatures.Purge, { status: String(status.done) }),
    purgeDead: callProcedure(n, "purge dead", "Purge", signatures.Purge, { status: String(status.dead) }),
    purgeOperations: callProcedure(n, "purge operations", "PurgeOperations", signatures.PurgeOperations),
    resolve: callProcedure(n, "resolve", "Resolve", signatures.Resolve),
    get,
    getCommitted: inTransaction(get),
    attempts: callProcedure(
      n,
      "attempts",
      "Attempts",
      n.kind === "inbox" ? signatures.AttemptsByKey : signatures.AttemptsById,
    ),
    list: callProcedure(n, "list", "List", signatures.List),
    stats: callProcedure(n, "stats", "Stats", signatures.Stats),
    oldestDue: callProcedure(n, "oldest_due", "OldestDue", signatures.OldestDue),
    replay: callProcedure(n, "replay", "Replay", signatures.Replay),
  };
}

export function inboxStatements(n: QueueNames, options: QueueStatementOptions): InboxStatements {
  return {
    ...queueStatements(n, options),
    alreadyProcessed: callProcedure(n, "already processed", "AlreadyProcessed", signatures.AlreadyProcessed),
  };
}

export function outboxStatements(n: QueueNames, options: QueueStatementOptions): OutboxStatements {
  return {
    ...queueStatements(n, options),
    enqueue: callProcedure(n, "enqueue", "Enqueue", enqueued.one),
    enqueueMany: callProcedure(n, "enqueue many", "Enqueue", enqueued.many),
    enqueueKeyed: callProcedure(n, "enqueue keyed", "Enqueue", enqueued.many),
    enqueueOnce: callProcedure(n, "enqueue once", "Enqueue", enqueued.many),
    expireDead: callProcedure(n, "expire dead", "ExpireDead", signatures.ExpireDead),
    listDone: callProcedure(n, "list done", "ListDone", signatures.ListDone),
    resend: callProcedure(n, "resend", "Resend", signatures.Resend),
    makeDue: callProcedure(n, "make due", "MakeDue", signatures.MakeDue),
  };
}

/** A procedure that only looks reads without locks, but not in a transaction: see `readFreely`. */
const inTransaction = ({ name, text }: SqlStatement): SqlStatement =>
  statement(
    `${name} committed`,
    `set nocount, xact_abort on;\nbegin transaction;\n${text};\ncommit transaction;`,
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

export function inboxProcedures(n: QueueNames): readonly Procedure[] {
  return [
    ...queueProcedures(n),
    ...keyProcedures(n),
    procedure(n, "Receive", signatures.Receive, receive(n), signatures.Receive.slice(2)),
    procedure(n, "AlreadyProcessed", signatures.AlreadyProcessed, alreadyProcessed(n)),
    procedure(n, "Mark", signatures.Mark, mark(n)),
  ];
}

/** Messages whose natural keys the outbox has. Their ids may be the caller's own: then a lost result is repeated. */
const findNaturalKeys = (n: QueueNames) => `delete from @known;

if exists (select 1 from @messages i where i.natural_key is not null)
  insert into @known (position, id)
  select i.position, m.id
  from (select top (1000000) j.position, j.topic, j.natural_key from @messages j order by j.topic, j.natural_key) i
  inner join ${n.message} m with (index(${n.bare("_NaturalKey")}), forceseek, readcommittedlock)
    on m.topic = i.topic and m.natural_key = i.natural_key and m.natural_key is not null ${seekEach};`;

/** The caller makes the ids. An enqueue whose result was lost can therefore be repeated and adds nothing. */
const enqueue = (n: QueueNames) => `${messagesTable(outboxColumns)}
declare @known table (position int not null primary key, id uniqueidentifier not null);
declare @added table (
  seq bigint not null primary key, partition_key nvarchar(255) ${binary} null, due_at datetime2(3) null, expires_at datetime2(3) null
);

${atOwnLevel(`${lockArrivals(n)}

${findOrInsert(
  findNaturalKeys(n),
  `insert into ${n.message} (${columnList(outboxColumns)}, created_at)
output inserted.seq, inserted.partition_key, inserted.due_at, inserted.expires_at into @added (seq, partition_key, due_at, expires_at)
select ${columnList(outboxColumns, "i.")}, @now
from @messages i
where not exists (select 1 from ${n.message} m with (${keyIndex(n)}, forceseek, readcommittedlock) where m.id = i.id)
  and not exists (select 1 from @known k where k.position = i.position)
order by i.position ${seekEach};`,
)}

insert into ${n.state} (seq, status, visible_at, expires_at, keyed)
select a.seq, case when a.partition_key is null then ${status.ready} else ${status.blocked} end, coalesce(a.due_at, @now),
  a.expires_at, case when a.partition_key is not null then 1 end
from @added a;

${joinPartition(n, "@added", "c.partition_key is not null")}`)}

if exists (select 1 from @known)
  select i.id, k.id as known_id from @known k inner join @messages i on i.position = k.position;`;

export function outboxProcedures(n: QueueNames): readonly Procedure[] {
  return [
    ...queueProcedures(n),
    procedure(n, "Enqueue", signatures.Enqueue, enqueue(n), signatures.Enqueue.slice(1)),
    procedure(n, "ExpireDead", signatures.ExpireDead, expireDead(n)),
    procedure(n, "ListDone", signatures.ListDone, listDone(n)),
    procedure(n, "MakeDue", signatures.MakeDue, makeDue(n)),
    procedure(n, "Resend", signatures.Resend, resend(n)),
  ];
}

function queueProcedures(n: QueueNames): readonly Procedure[] {
  const s = stateTable(n);
  const make = (
    suffix: Exclude<keyof typeof signatures, "GetByKey" | "GetById" | "AttemptsByKey" | "AttemptsById">,
    body: string,
  ) => procedure(n, suffix, signatures[suffix], body);
  return [
    // before those that call it: the server warns of a procedure that is not there
    make("ApplyPartitionChanges", atomically(applyChanges(n))),
    make("Claim", claim(n)),
    make("Ack", ack(n)),
    make("Abandon", abandon(n)),
    make("Fail", fail(n)),
    // The message keeps its place in the order, the time since when it was claimable and its count of crashes. A dead message
    // whose expiry was reported stays dead.
    make(
      "Release",
      settle(n, `owner = null, locked_until = null, reclaimable_at = ${s}.due_since`, owned(s)),
    ),
    make(
      "Renew",
      `${prepareLease(n)}
${prepareBackoff}
${settle(
  n,
  `locked_until = @lease_end,
  reclaimable_at = ${addMs(n, "@lease_end", `\n    ${backoffSql(`(${s}.attempt + 1)`, `${s}.seq`)}`)}`,
  owned(s),
)}`,
    ),
    make("Reap", reap(n)),
    make("Purge", purge(n)),
    make("Resolve", resolve(n)),
    procedure(n, "Get", n.kind === "inbox" ? signatures.GetByKey : signatures.GetById, get(n)),
    procedure(
      n,
      "Attempts",
      n.kind === "inbox" ? signatures.AttemptsByKey : signatures.AttemptsById,
      attempts(n),
    ),
    make("List", list(n)),
    make("Stats", stats(n)),
    make("OldestDue", oldestDue(n)),
    make("Due", due(n)),
    make("Replay", replay(n)),
    ...deadProcedures(n),
    ...controlProcedures(n),
  ];
}

const listDone = (n: QueueNames) => `select top (@limit) d.seq, m.id, m.topic, d.processed_at
from ${doneTable(n)} d with (${readPast})
inner join ${n.message} m with (forceseek) on m.seq = d.seq
where d.seq > @after_seq
order by d.seq ${seekEach};`;

/** Each chosen row is tested again where it is locked: a claim may have taken it by then. */
function makeDue(n: QueueNames): string {
  const s = stateTable(n);
  const waits = (t: string) =>
    `${t}.status = ${status.ready} and ${t}.visible_at > @now and ${t}.locked_until is null and ${t}.last_error ${binary} = @error ${binary}`;
  return `declare @due table (seq bigint not null primary key);

update ${n.state}
set visible_at = @now
output inserted.seq into @due (seq)
from (
  select top (@limit) r.seq
  from ${pickFrom(n, "_Ready")}
  where ${waits("r")}
  order by r.visible_at, r.seq
) p, ${n.state} with (forceseek, ${skipLocked})
where ${s}.seq = p.seq and ${waits(s)} ${seekEach};

select d.seq from @due d;`;
}
