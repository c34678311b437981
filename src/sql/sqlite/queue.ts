import {
  type InboxStatements,
  type OutboxStatements,
  type QueueStatementOptions,
  type QueueStatements,
  status,
} from "../dialect.js";
import { type SqlStatement, statement } from "../driver.js";
import type { QueueNames } from "../names.js";
import { applyControls, isPaused, mayFree } from "./controls.js";
import {
  field,
  foundStatus,
  limit,
  nextSeq,
  now,
  ownNow,
  readFirstSeq,
  sentSeqs,
  seqInBatch,
  unclaimed,
  whole,
} from "./expressions.js";
import { claimStatement, settleStatements } from "./leases.js";
import { expireDead, purgeStatements, reap } from "./maintenance.js";
import { rejoin } from "./partitions.js";
import { readStatements } from "./reads.js";
import { databaseClock, steps } from "./steps.js";

const queueStatements = (n: QueueNames, { blockOnDead }: QueueStatementOptions): QueueStatements => ({
  claim: claimStatement(n, blockOnDead),
  applyControls: applyControls(n),
  ...settleStatements(n, blockOnDead),
  reap: reap(n, blockOnDead),
  ...purgeStatements(n),
  ...readStatements(n),
});

export function inboxStatements(n: QueueNames, options: QueueStatementOptions): InboxStatements {
  const m = n.message;
  const statusBefore = foundStatus(n);
  return {
    ...queueStatements(n, options),
    alreadyProcessed: steps(
      "already processed",
      `insert into ${m} (seq, source, message_id, topic, payload, hash, first_seen_at, last_seen_at)
values (${nextSeq(n)}, :source, :message_id, '', '', :hash, ${now}, ${now})
on conflict (source, message_id) do update
set hash = case when ${statusBefore} = ${status.done} then coalesce(${m}.hash, excluded.hash) else coalesce(excluded.hash, ${m}.hash) end,
  last_seen_at = excluded.last_seen_at,
  deliveries = ${m}.deliveries + 1,
  content_changed = coalesce(${m}.hash <> excluded.hash, 0)
returning coalesce(${statusBefore} = ${status.done}, 0) as processed, content_changed`,
    ),
  };
}

/** The values of new messages: scalar parameters, or a JSON array of objects with the same names. */
const scalarOutbox = `:id, :message_id, :topic, :payload, :correlation_id, :headers, :due_at, :expires_at`;
const jsonOutbox = `${field("id")}, ${field("message_id")}, ${field("topic")}, ${field("payload")},
  ${field("correlation_id")}, ${field("headers")}, ${field("due_at")}, ${field("expires_at")}`;

export function outboxStatements(n: QueueNames, options: QueueStatementOptions): OutboxStatements {
  // The caller makes the ids: an enqueue whose result was lost can be repeated and adds nothing.
  const enqueue = (
    values: string,
    more = "",
    onConflict = "on conflict (id) do nothing",
  ) => `insert into ${n.message} (seq, id, message_id, topic, payload,
  correlation_id, headers, due_at, expires_at${more}, created_at)
${values}
${onConflict}`;
  const many = (columns: string) =>
    `select ${seqInBatch}, ${columns}, ${now} from json_each(:items) i where true`;

  return {
    ...queueStatements(n, options),
    enqueue: steps("enqueue", enqueue(`values (${nextSeq(n)}, ${scalarOutbox}, ${ownNow})`)),
    enqueueMany: steps("enqueue many", readFirstSeq(n), enqueue(many(jsonOutbox))),
    enqueueKeyed: steps(
      "enqueue keyed",
      readFirstSeq(n),
      enqueue(many(`${jsonOutbox}, ${field("partition_key")}`), ", partition_key"),
    ),
    enqueueOnce: steps(
      "enqueue once",
      readFirstSeq(n),
      enqueue(
        many(`${jsonOutbox}, ${field("partition_key")}, ${field("natural_key")}`),
        ", partition_key, natural_key",
        "on conflict do nothing",
      ),
      `select ${field("id")} as id, m.id as known_id
from json_each(:items) i
cross join ${n.message} m on m.topic = ${field("topic")} and m.natural_key = ${field("natural_key")}
where m.natural_key is not null`,
    ),
    expireDead: expireDead(n),
    ...resendStatements(n),
  };
}

/** The statements of an outbox that send messages again, or earlier. */
const resendStatements = (n: QueueNames): Pick<OutboxStatements, "listDone" | "resend" | "makeDue"> => ({
  listDone: steps(
    "list done",
    `select s.seq, m.id, m.topic, s.processed_at
from ${n.state} s
cross join ${n.message} m on m.seq = s.seq
where s.seq > :after_seq and s.status = ${status.done}
order by s.seq
limit ${limit}`,
  ),
  resend: steps(
    "resend",
    `update ${n.state} as s
set status = ${status.ready}, attempt = 0, crashes = 0, owner = null, locked_until = null, visible_at = ${now},
  expires_at = ${now} + ${whole(":ttl_ms")}, processed_at = null, processed_by = null
where s.seq in ${sentSeqs} and s.status = ${status.done}
returning seq`,
    ...rejoin(n),
  ),
  makeDue: steps(
    "make due",
    `update ${n.state} as s
set visible_at = ${now}
where s.seq in (
  select seq from ${n.state}
  where status = ${status.ready} and visible_at > ${now} and last_error = :error
  limit ${limit}
)
returning seq`,
  ),
});

/** A claim would find something: an unclaimed message, a ready one, or one whose lease was lost; or it may free one. */
const anyDue = (n: QueueNames) => `not ${isPaused(n)} and (
  exists (select 1 ${unclaimed(n)})
  or exists (select 1 from ${n.state} where status = ${status.ready} and visible_at <= ${databaseClock})
  or exists (select 1 from ${n.state} where status = ${status.held} and visible_at <= ${databaseClock})
  or ${mayFree(n)}
)`;

export const pollStatement = (inbox: QueueNames, outbox: QueueNames): SqlStatement =>
  statement(
    "poll",
    `select 'inbox' as queue where ${anyDue(inbox)}\nunion all\nselect 'outbox' where ${anyDue(outbox)}`,
  );
