import { status } from "../../dialect.js";
import { type QueueNames, queueId } from "../../names.js";
import { insertArchived } from "../archive.js";
import { deleteAttempts, deleteStates } from "../attempts.js";
import { addMs, unicodeLiteral } from "../expressions.js";
import { operationsTable } from "../operations-table.js";
import { leavePartition } from "../partitions.js";
import { signatures } from "../signatures.js";
import {
  atomically,
  lockRow,
  lockTarget,
  type Procedure,
  procedure,
  readPast,
  seekEach,
  seqs,
  stateTable,
} from "./procedure.js";

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
where s.status = ${status.dead} ${seekEach};

${body}`)}`;

const returnGone = "select g.seq from @gone g;";

const discard = (n: QueueNames) => `${takeDead(
  n,
  `${leavePartition(n, "@gone", "c.keyed = 1")}

delete from ${n.message}
from @gone g, ${n.message} with (${lockRow})
where ${n.bare("")}.seq = g.seq ${seekEach};

${deleteStates(n, "@gone")}`,
)}

${returnGone}`;

/** The key stays, and is purged with other Done messages. What it contained is in the archive. */
const keepAsDone = (n: QueueNames) => `${leavePartition(n, "@gone", "c.keyed = 1")}

update ${n.message}
set payload = N'', headers = null
from @gone g, ${n.message} with (${lockRow})
where ${n.bare("")}.seq = g.seq ${seekEach};

update ${n.state}
set status = ${status.done}, ended_as = @ended_as, processed_at = @now, died_at = null
from @gone g, ${n.state} with (${lockRow})
where ${stateTable(n)}.seq = g.seq ${seekEach};

${deleteAttempts(n, "@gone")}`;

/** An outbox has no use for the keys. It discards what it has archived, no more: of other @items, one may have died meanwhile. */
const discardGone = (
  n: QueueNames,
) => `set @items = (select N'[' + string_agg(cast(g.seq as nvarchar(max)), N',') + N']' from @gone g);
exec ${n.object("_Discard")} @items = @items;`;

const archive = (n: QueueNames) =>
  n.kind === "inbox"
    ? `${takeDead(n, `${insertArchived(n)}\n\n${keepAsDone(n)}`)}\n\n${returnGone}`
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
  procedure(n, "Discard", signatures.Discard, discard(n)),
  procedure(n, "Archive", signatures.Archive, archive(n)),
  procedure(n, "AddOperation", signatures.AddOperation, addOperation(n)),
  procedure(n, "MoveOperation", signatures.MoveOperation, moveOperation(n)),
  procedure(n, "PurgeOperations", signatures.PurgeOperations, purgeOperations(n)),
];
