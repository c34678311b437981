import { status } from "../../dialect.js";
import type { QueueNames } from "../../names.js";
import { binary } from "../expressions.js";
import { columnList, outboxColumns } from "../json-columns.js";
import { joinPartition, lockArrivals } from "../partitions.js";
import { signatures } from "../signatures.js";
import { findOrInsert, keyIndex } from "./find-by-key.js";
import { expireDead } from "./maintain.js";
import { messagesTable } from "./message-parameters.js";
import { atOwnLevel, type Procedure, procedure, seekEach } from "./procedure.js";
import { queueProcedures } from "./queue-procedures.js";
import { listDone, makeDue } from "./resend.js";
import { replay } from "./settle.js";

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
    procedure(n, "Resend", signatures.Resend, replay(n, status.done)),
  ];
}
