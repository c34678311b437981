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
import {
  createFunction,
  doneTable,
  eachColumn,
  epochMs,
  firstStatus,
  isDue,
  keyed,
  ms,
  named,
  now,
} from "./expressions.js";
import { leaseStatements, seqs } from "./leases.js";
import { expireDead, maintenanceStatements } from "./maintenance.js";
import { pendingArrivals, rejoinPartitions } from "./partitions.js";
import { readStatements } from "./reads.js";
import { recordUnhandled } from "./unhandled.js";

export const inboxStatements = (n: QueueNames, options: QueueStatementOptions): InboxStatements => ({
  ...queueStatements(n, options),
  ...named({
    alreadyProcessed: `select r.* from ${n.object("_already_processed")}(:source, :message_id, :hash, :now::timestamptz) r`,
  }),
});

export function outboxStatements(n: QueueNames, options: QueueStatementOptions): OutboxStatements {
  // The caller makes the ids. An enqueue whose result was lost can therefore be repeated and adds nothing.
  const enqueue = (newMessages: string) => `with added as (
  insert into ${n.message} (${namesOf(content)}, created_at)
  select i.*, ${now}
  from ${newMessages}
  on conflict (id) do nothing
  returning seq, due_at, expires_at, created_at
)
insert into ${n.state} (seq, status, visible_at, expires_at)
select seq, ${status.ready}, coalesce(due_at, created_at), expires_at
from added`;
  const enqueueWithKeys = (once: boolean) =>
    `select r.* from ${n.object("_enqueue")}(:items::json, ${once}, :now::timestamptz) r`;

  return {
    ...queueStatements(n, options),
    ...named({
      enqueue: enqueue(scalars),
      enqueueMany: enqueue(`json_to_recordset(:items::json) as i(${content})`),
      enqueueKeyed: enqueueWithKeys(false),
      enqueueOnce: enqueueWithKeys(true),
      expireDead: expireDead(n),
      listDone: `select d.seq, m.id, m.topic, ${epochMs("d.processed_at")} as processed_at
from ${doneTable(n)} d
join ${n.message} m on m.seq = d.seq
where d.seq > :after_seq::bigint
order by d.seq
limit (select :limit::int)`,
      // the message is locked first, as a purge does, which skips it then: it would delete the message and leave the new state
      resend: `with kept as (
  select m.seq, m.partition_key
  from ${n.message} m
  where m.seq = ${seqs}
  order by m.seq
  for update
), sent as (
  delete from ${doneTable(n)} d
  where d.seq = any (array(select seq from kept))
  returning d.seq, d.last_error
), ready as (
  insert into ${n.state} (seq, status, visible_at, expires_at, last_error, keyed)
  select sent.seq, ${firstStatus("m.partition_key")}, ${now},
    ${now} + ${ms(":ttl_ms::float8")}, sent.last_error, ${keyed("m.partition_key")}
  from sent
  join kept m on m.seq = sent.seq
  returning seq, keyed
)
select seq
from ready
where ${rejoinPartitions(n, "ready")}`,
      makeDue: `with waiting as (
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
    }),
  };
}

const queueStatements = (n: QueueNames, { blockOnDead }: QueueStatementOptions): QueueStatements => ({
  ...leaseStatements(n, blockOnDead),
  ...maintenanceStatements(n, blockOnDead),
  ...readStatements(n),
  ...named({ recordUnhandled: recordUnhandled(n) }),
});

const content =
  "id uuid, message_id uuid, topic text, type text, payload text, correlation_id text, headers text, due_at timestamptz, expires_at timestamptz";
const contentAndKeys = `${content}, partition_key text, natural_key text`;
const namesOf = (columns: string) => eachColumn(columns, (name) => name);

/** A new message as a table with one row. */
const scalars = `(select ${eachColumn(content, (name, type) => `:${name}::${type} as ${name}`)}) i`;

/**
 * Adds messages, some with partition keys. With `p_once`, it adds those whose natural keys the outbox does not have, and returns the
 * ids of those that have the others' keys: an insert that waited for another transaction does not see what that one has committed;
 * the next step does. When the known message is deleted between the two steps, the next round adds its successor.
 */
export const enqueueFunction = (n: QueueNames): string => {
  const items = `json_to_recordset(p_items) as i(${contentAndKeys})`;
  return createFunction(
    n.object("_enqueue"),
    "p_items json, p_once boolean, p_now timestamptz",
    "returns table (id uuid, known_id uuid)",
    `#variable_conflict use_column
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_keyed bigint[];
begin
  loop
    with added as (
      insert into ${n.message} (${namesOf(contentAndKeys)}, created_at)
      select i.*, v_now
      from ${items}
      on conflict do nothing
      returning seq, due_at, expires_at, partition_key
    ), states as (
      insert into ${n.state} (seq, status, visible_at, expires_at, keyed)
      select a.seq, ${firstStatus("a.partition_key")}, coalesce(a.due_at, v_now), a.expires_at, ${keyed("a.partition_key")}
      from added a
      returning seq, keyed
    )
    select array_agg(s.seq) into v_keyed from states s where s.keyed;
    if v_keyed is not null then insert into ${pendingArrivals(n)} (seqs) values (v_keyed); end if;
    if not p_once then return; end if;

    exit when not exists (
      select
      from ${items}
      where i.natural_key is not null and not exists (
          select from ${n.message} m where m.topic = i.topic and m.natural_key = i.natural_key
        )
    );
  end loop;

  return query
  select i.id, m.id
  from ${items}
  join ${n.message} m on m.topic = i.topic and m.natural_key = i.natural_key;
end`,
    // A plan may be cached while the table is nearly empty.
    "set enable_seqscan = off",
  );
};

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
