import { status } from "../../dialect.js";
import type { QueueNames } from "../../names.js";
import { binary } from "../expressions.js";
import { columnList, keyedOutboxColumns, outboxColumns } from "../json-functions.js";
import { lockArrivals, pendingArrivalsTable } from "../partitions.js";
import { signatures } from "../signatures.js";
import { expireDead } from "./maintain.js";
import { firstStatus, keyed, messagesTable, parametersAsRow } from "./message-parameters.js";
import { atomically, type Procedure, procedure } from "./procedure.js";
import { queueProcedures } from "./queue-procedures.js";
import { listDone, makeDue, resend } from "./resend.js";

const scalarOutbox = parametersAsRow(outboxColumns);

/** The caller makes the ids. An enqueue whose result was lost can therefore be repeated and adds nothing. */
const enqueue = (n: QueueNames, newMessages: string) => `declare @added table (
  seq bigint not null primary key,
  due_at datetime2(3) null,
  expires_at datetime2(3) null
);

${atomically(`insert into ${n.message} (${columnList(outboxColumns)}, created_at)
output inserted.seq, inserted.due_at, inserted.expires_at into @added (seq, due_at, expires_at)
select ${columnList(outboxColumns, "i.")}, @now
from ${newMessages}
where not exists (select 1 from ${n.message} m where m.id = i.id)
order by i.position;

insert into ${n.state} (seq, status, visible_at, expires_at)
select a.seq, ${status.ready}, coalesce(a.due_at, @now), a.expires_at
from @added a;`)}`;

const enqueueKeyed = (n: QueueNames) => `${messagesTable(n, keyedOutboxColumns, "_KeyedMessagesFromJson")}
declare @added table (
  seq bigint not null primary key,
  partition_key nvarchar(255) ${binary} null,
  due_at datetime2(3) null,
  expires_at datetime2(3) null
);

${atomically(`${lockArrivals(n, "keys", "@messages")}

insert into ${n.message} (${columnList(keyedOutboxColumns)}, created_at)
output inserted.seq, inserted.partition_key, inserted.due_at, inserted.expires_at
into @added (seq, partition_key, due_at, expires_at)
select ${columnList(keyedOutboxColumns, "i.")}, @now
from @messages i
where not exists (select 1 from ${n.message} m where m.id = i.id)
order by i.position;

insert into ${n.state} (seq, status, visible_at, expires_at, keyed)
select i.seq, ${firstStatus}, coalesce(i.due_at, @now), i.expires_at, ${keyed}
from @added i;

insert into ${pendingArrivalsTable(n)} (seq, partition_key)
select a.seq, a.partition_key
from @added a
where a.partition_key is not null
order by a.seq;`)}`;

export function outboxProcedures(n: QueueNames): readonly Procedure[] {
  return [
    ...queueProcedures(n),
    procedure(n, "Enqueue", signatures.Enqueue, enqueue(n, scalarOutbox)),
    procedure(
      n,
      "EnqueueMany",
      signatures.EnqueueMany,
      `${messagesTable(n, outboxColumns, "_MessagesFromJson")}\n\n${enqueue(n, "@messages i")}`,
    ),
    procedure(n, "EnqueueKeyed", signatures.EnqueueKeyed, enqueueKeyed(n)),
    procedure(n, "ExpireDead", signatures.ExpireDead, expireDead(n)),
    procedure(n, "ListDone", signatures.ListDone, listDone(n)),
    procedure(n, "Resend", signatures.Resend, resend(n)),
    procedure(n, "MakeDue", signatures.MakeDue, makeDue(n)),
  ];
}
