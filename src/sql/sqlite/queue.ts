import {
  type InboxStatements,
  type OutboxStatements,
  type QueueStatementOptions,
  type QueueStatements,
  status,
} from "../dialect.js";
import type { SqlStatement } from "../driver.js";
import type { QueueNames } from "../names.js";
import { type SteppedStatement, steps } from "./connection.js";
import { holdsState, isPaused } from "./controls.js";
import {
  addStates,
  doneTable,
  field,
  isDue,
  isOtherHash,
  limit,
  now,
  sentSeqs,
  stepSeqs,
  whole,
} from "./expressions.js";
import * as leases from "./leases.js";
import * as maintenance from "./maintenance.js";
import { joinPartitions } from "./partitions.js";
import * as reads from "./reads.js";
import { addSeen } from "./receive.js";
import { recordUnhandled } from "./unhandled.js";

const queueStatements = (n: QueueNames, { blockOnDead }: QueueStatementOptions): QueueStatements => ({
  claim: steps("claim", () => leases.claim(n, blockOnDead)),
  ack: steps("ack", () => leases.ack(n)),
  abandon: steps("abandon", () => leases.abandon(n, blockOnDead)),
  fail: steps("fail", () => leases.fail(n, blockOnDead)),
  release: steps("release", () => leases.release(n)),
  renew: steps("renew", () => leases.renew(n)),
  reap: steps("reap", () => maintenance.reap(n, blockOnDead)),
  purge: steps("purge", () => maintenance.purge(n)),
  purgeDead: steps("purge dead", () => maintenance.purgeDead(n)),
  purgeOperations: steps("purge operations", () => maintenance.purgeOperations(n)),
  resolve: steps("resolve", () => leases.resolve(n)),
  get: steps("get", () => reads.get(n)),
  attempts: steps("attempts", () => reads.attempts(n)),
  list: steps("list", () => reads.list(n)),
  stats: steps("stats", () => reads.stats(n)),
  oldestDue: steps("oldest_due", () => reads.oldestDue(n)),
  replay: steps("replay", () => leases.replay(n)),
  recordUnhandled: steps("record unhandled", () => recordUnhandled(n)),
});

export function inboxStatements(n: QueueNames, options: QueueStatementOptions): InboxStatements {
  const m = n.message;
  const isDone = `exists (select 1 from ${doneTable(n)} d where d.seq = ${m}.seq)`;
  return {
    ...queueStatements(n, options),
    alreadyProcessed: steps("already processed", () => [
      `insert into ${m} (source, message_id, topic, payload, hash, first_seen_at, last_seen_at)
values (:source, :message_id, '', '', :hash, ${now}, ${now})
on conflict (source, message_id) do update
set hash = iif(${isDone}, coalesce(${m}.hash, excluded.hash), coalesce(excluded.hash, ${m}.hash)),
  last_seen_at = excluded.last_seen_at,
  deliveries = ${m}.deliveries + 1,
  content_changed = ${isOtherHash(`${m}.hash`, "excluded.hash")}
returning seq, ${isDone} as processed, content_changed`,
      addSeen(n),
    ]),
  };
}

const columns = [
  "id",
  "message_id",
  "topic",
  "type",
  "payload",
  "correlation_id",
  "headers",
  "due_at",
  "expires_at",
  "partition_key",
  "natural_key",
];

/** New messages: from scalar parameters, or from a JSON array of objects with the same names. */
const scalar = `values (${columns.map((name) => `:${name}`).join(", ")}, ${now})`;
const json = `select ${columns.map(field).join(", ")}, ${now} from json_each(:items) i where true`;

/** The caller makes the ids: an enqueue whose result was lost can be repeated and adds nothing. */
const enqueue = (n: QueueNames, name: string, values: string, ...more: readonly string[]): SteppedStatement =>
  steps(name, () => [
    `insert into ${n.message} (${columns.join(", ")}, created_at)
${values}
on conflict do nothing
returning seq`,
    addStates(n, "created_at"),
    ...(values === scalar ? [] : joinPartitions(n)), // a single message brings no partition key
    ...more,
  ]);

export function outboxStatements(n: QueueNames, options: QueueStatementOptions): OutboxStatements {
  const many = enqueue(n, "enqueue many", json);
  return {
    ...queueStatements(n, options),
    enqueue: enqueue(n, "enqueue", scalar),
    enqueueMany: many,
    enqueueKeyed: many,
    enqueueOnce: enqueue(
      n,
      "enqueue once",
      json,
      `select ${field("id")} as id, m.id as known_id
from json_each(:items) i
cross join ${n.message} m on m.topic = ${field("topic")} and m.natural_key = ${field("natural_key")}
where m.natural_key is not null`,
    ),
    expireDead: steps("expire dead", () => maintenance.expireDead(n)),
    ...resendStatements(n),
  };
}

/** The statements of an outbox that send messages again, or earlier. */
const resendStatements = (n: QueueNames): Pick<OutboxStatements, "listDone" | "resend" | "makeDue"> => ({
  listDone: steps(
    "list done",
    () =>
      `select d.seq, m.id, m.topic, d.processed_at
from ${doneTable(n)} d
cross join ${n.message} m on m.seq = d.seq
where d.seq > :after_seq
order by d.seq
limit ${limit}`,
  ),
  resend: steps("resend", () => [
    `insert into ${n.state} (seq, status, visible_at, expires_at, last_error, keyed)
select d.seq, ${status.ready}, ${now}, ${now} + ${whole(":ttl_ms")}, d.last_error, iif(m.partition_key is null, null, 1)
from ${doneTable(n)} d
join ${n.message} m on m.seq = d.seq
where d.seq in ${sentSeqs}
returning seq`,
    `delete from ${doneTable(n)} where seq in ${stepSeqs}`,
    ...joinPartitions(n),
  ]),
  makeDue: steps(
    "make due",
    () =>
      `update ${n.state}
set visible_at = ${now}
where seq in (
  select seq from ${n.state}
  where status = ${status.ready} and visible_at > ${now} and locked_until is null and last_error = :error
  limit ${limit}
)
returning seq`,
  ),
});

/** A claim would find a message. */
const anyDue = (n: QueueNames) =>
  `not ${isPaused(n)} and exists (select 1 from ${n.state} s where ${isDue} and not ${holdsState(n)})`;

export const pollStatement = (inbox: QueueNames, outbox: QueueNames): SqlStatement =>
  steps(
    "poll",
    () =>
      `select 'inbox' as queue where ${anyDue(inbox)}\nunion all\nselect 'outbox' where ${anyDue(outbox)}`,
  );
