import { status } from "../../dialect.js";
import type { QueueNames } from "../../names.js";
import { binary } from "../expressions.js";
import { columnList, outboxColumns } from "../json-functions.js";
import { joinPartition, lockArrivals } from "../partitions.js";
import { signatures } from "../signatures.js";
import { keyIndex } from "./find-by-key.js";
import { expireDead } from "./maintain.js";
import { messagesTable } from "./message-parameters.js";
import { atomically, type Procedure, procedure, seekEach } from "./procedure.js";
import { queueProcedures } from "./queue-procedures.js";
import { listDone, makeDue } from "./resend.js";

/** The caller makes the ids. An enqueue whose result was lost can therefore be repeated and adds nothing. */
const enqueue = (n: QueueNames) => `${messagesTable(n, outboxColumns)}
declare @added table (
  seq bigint not null primary key, partition_key nvarchar(255) ${binary} null, due_at datetime2(3) null, expires_at datetime2(3) null
);

${atomically(`${lockArrivals(n)}

insert into ${n.message} (${columnList(outboxColumns)}, created_at)
output inserted.seq, inserted.partition_key, inserted.due_at, inserted.expires_at into @added (seq, partition_key, due_at, expires_at)
select ${columnList(outboxColumns, "i.")}, @now
from @messages i
where not exists (select 1 from ${n.message} m with (${keyIndex(n)}, forceseek, readcommittedlock) where m.id = i.id)
order by i.position ${seekEach};

insert into ${n.state} (seq, status, visible_at, expires_at, keyed)
select a.seq, case when a.partition_key is null then ${status.ready} else ${status.blocked} end, coalesce(a.due_at, @now),
  a.expires_at, case when a.partition_key is not null then 1 end
from @added a;

${joinPartition(n, "@added", "c.partition_key is not null")}`)}`;

export function outboxProcedures(n: QueueNames): readonly Procedure[] {
  return [
    ...queueProcedures(n),
    procedure(n, "Enqueue", signatures.Enqueue, enqueue(n), signatures.Enqueue.slice(1)),
    procedure(n, "ExpireDead", signatures.ExpireDead, expireDead(n)),
    procedure(n, "ListDone", signatures.ListDone, listDone(n)),
    procedure(n, "MakeDue", signatures.MakeDue, makeDue(n)),
  ];
}
