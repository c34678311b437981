import {
  type InboxStatements,
  type OutboxStatements,
  type QueueStatementOptions,
  type QueueStatements,
  status,
} from "../dialect.js";
import { type SqlStatement, statement } from "../driver.js";
import type { QueueNames } from "../names.js";
import { isPaused } from "./controls.js";
import { doneTable, epochMs, isDue, ms, now } from "./expressions.js";
import { claimStatement, seqs, settleStatements } from "./leases.js";
import { expireDead, purgeStatements, reap } from "./maintenance.js";
import { pendingArrivals, rejoinPartitions } from "./partitions.js";
import { readStatements } from "./reads.js";

const queueStatements = (n: QueueNames, { blockOnDead }: QueueStatementOptions): QueueStatements => ({
  claim: claimStatement(n, blockOnDead),
  ...settleStatements(n, blockOnDead),
  reap: reap(n, blockOnDead),
  ...purgeStatements(n),
  ...readStatements(n),
});

/** New messages as a table: from scalar parameters, or from a JSON array of objects with the same names. */
const scalarOutbox = `select :id::uuid as id, :message_id::uuid as message_id, :topic::text as topic, :payload::text as payload,
    :correlation_id::text as correlation_id, :headers::text as headers,
    :due_at::timestamptz as due_at, :expires_at::timestamptz as expires_at`;
const jsonOutbox = `select i.id, i.message_id, i.topic, i.payload, i.correlation_id, i.headers, i.due_at, i.expires_at
  from json_to_recordset(:items::json) as i(id uuid, message_id uuid, topic text, payload text, correlation_id text,
    headers text, due_at timestamptz, expires_at timestamptz)`;

export function inboxStatements(n: QueueNames, options: QueueStatementOptions): InboxStatements {
  return {
    ...queueStatements(n, options),
    alreadyProcessed: statement(
      "already processed",
      `select r.* from ${n.object("_already_processed")}(:source, :message_id, :hash, :now::timestamptz) r`,
    ),
  };
}

export function outboxStatements(n: QueueNames, options: QueueStatementOptions): OutboxStatements {
  // The caller makes the ids. An enqueue whose result was lost can therefore be repeated and adds nothing.
  const enqueue = (newMessages: string) => `with added as (
  insert into ${n.message} (id, message_id, topic, payload, correlation_id, headers, due_at, expires_at, created_at)
  select i.*, ${now}
  from (${newMessages}) i
  on conflict (id) do nothing
  returning seq, due_at, expires_at, created_at
)
insert into ${n.state} (seq, status, visible_at, expires_at)
select seq, ${status.ready}, coalesce(due_at, created_at), expires_at
from added`;

  return {
    ...queueStatements(n, options),
    enqueue: statement("enqueue", enqueue(scalarOutbox)),
    enqueueMany: statement("enqueue many", enqueue(jsonOutbox)),
    enqueueKeyed: statement(
      "enqueue keyed",
      `with added as (
  insert into ${n.message} (id, message_id, topic, payload, correlation_id, headers, due_at, expires_at, partition_key, created_at)
  select i.*, ${now}
  from json_to_recordset(:items::json) as i(id uuid, message_id uuid, topic text, payload text, correlation_id text,
    headers text, due_at timestamptz, expires_at timestamptz, partition_key text)
  on conflict (id) do nothing
  returning seq, due_at, expires_at, created_at, partition_key
), arrivals as (
  insert into ${pendingArrivals(n)} (seqs)
  select array_agg(seq) from added where partition_key is not null having count(*) > 0
)
insert into ${n.state} (seq, status, visible_at, expires_at, keyed)
select seq, case when partition_key is null then ${status.ready} else ${status.blocked} end, coalesce(due_at, created_at),
  expires_at, case when partition_key is not null then true end
from added`,
    ),
    enqueueOnce: statement(
      "enqueue once",
      `select r.* from ${n.object("_enqueue_once")}(:items::json, :now::timestamptz) r`,
    ),
    expireDead: expireDead(n),
    listDone: statement(
      "list done",
      `select d.seq, m.id, m.topic, ${epochMs("d.processed_at")} as processed_at
from ${doneTable(n)} d
join ${n.message} m on m.seq = d.seq
where d.seq > :after_seq::bigint
order by d.seq
limit (select :limit::int)`,
    ),
    resend: statement(
      "resend",
      `with sent as (
  delete from ${doneTable(n)} d
  where d.seq = ${seqs}
  returning d.seq, d.last_error
), ready as (
  insert into ${n.state} (seq, status, visible_at, expires_at, last_error, keyed)
  select sent.seq, case when m.partition_key is null then ${status.ready} else ${status.blocked} end, ${now},
    ${now} + ${ms(":ttl_ms::float8")}, sent.last_error, case when m.partition_key is not null then true end
  from sent
  join ${n.message} m on m.seq = sent.seq
  returning seq, keyed
)
select seq
from ready
where ${rejoinPartitions(n, "ready")}`,
    ),
    makeDue: statement(
      "make due",
      `with waiting as (
  select s.seq
  from ${n.state} s
  where s.status = ${status.ready} and s.visible_at > ${now} and s.locked_until is null and s.last_error = :error
  limit (select :limit::int)
  for update skip locked
)
update ${n.state} s
set visible_at = ${now}
where s.seq = any (array(select seq from waiting))
returning s.seq`,
    ),
  };
}

/** One row when a claim would find a message. */
const anyDue = (n: QueueNames) => `(
  select '${n.kind}' as queue
  from ${n.state} s
  where ${isDue("s", "statement_timestamp()")}
    and not ${isPaused(n)}
  limit 1
)`;

/** Returns no rows in the usual case: one row with two columns that say no takes a tenth longer. */
export const pollStatement = (inbox: QueueNames, outbox: QueueNames): SqlStatement =>
  statement("poll", `${anyDue(inbox)}\nunion\n${anyDue(outbox)}`);
