import { status } from "../../dialect.js";
import type { QueueNames } from "../../names.js";
import { binary } from "../expressions.js";
import { keyedOutboxColumns, list as listed, outboxColumns } from "../json-functions.js";
import { arrivedTable, lockEnds } from "../partitions.js";
import { signatures } from "../signatures.js";
import { jsonTable, keyed, parametersAsRow, waiting } from "./message-parameters.js";
import { atomically, type Procedure, procedure } from "./procedure.js";
import { queueProcedures } from "./queue-procedures.js";

const scalarOutbox = parametersAsRow(outboxColumns);

/** The caller makes the ids, so that an enqueue whose answer was lost can be repeated and adds nothing. */
const enqueue = (n: QueueNames, incoming: string) => `declare @added table (
  seq bigint not null primary key,
  due_at datetime2(3) null,
  expires_at datetime2(3) null
);

${atomically(`insert into ${n.message} (${listed(outboxColumns)}, created_at)
output inserted.seq, inserted.due_at, inserted.expires_at into @added (seq, due_at, expires_at)
select ${listed(outboxColumns, "i.")}, @now
from ${incoming}
where not exists (select 1 from ${n.message} m where m.id = i.id)
order by i.position;

insert into ${n.state} (seq, status, visible_at, expires_at)
select a.seq, ${status.ready}, coalesce(a.due_at, @now), a.expires_at
from @added a;`)}`;

const enqueueKeyed = (n: QueueNames) => `${jsonTable(n, keyedOutboxColumns, "_IncomingKeyed")}
declare @added table (
  seq bigint not null primary key,
  partition_key nvarchar(255) ${binary} null,
  due_at datetime2(3) null,
  expires_at datetime2(3) null
);

${atomically(`${lockEnds(n, "ends", "@incoming")}

insert into ${n.message} (${listed(keyedOutboxColumns)}, created_at)
output inserted.seq, inserted.partition_key, inserted.due_at, inserted.expires_at
into @added (seq, partition_key, due_at, expires_at)
select ${listed(keyedOutboxColumns, "i.")}, @now
from @incoming i
where not exists (select 1 from ${n.message} m where m.id = i.id)
order by i.position;

insert into ${n.state} (seq, status, visible_at, expires_at, keyed)
select i.seq, ${waiting}, coalesce(i.due_at, @now), i.expires_at, ${keyed}
from @added i;

insert into ${arrivedTable(n)} (seq, partition_key)
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
      `${jsonTable(n, outboxColumns)}\n\n${enqueue(n, "@incoming i")}`,
    ),
    procedure(n, "EnqueueKeyed", signatures.EnqueueKeyed, enqueueKeyed(n)),
  ];
}
