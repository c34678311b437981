import {
  type ReceiveStatementOptions,
  type ReceiveStatements,
  type ReceivingDialect,
  status,
} from "../dialect.js";
import type { QueueNames } from "../names.js";
import { addStates, doneTable, field, names, now, stepSeqs } from "./expressions.js";
import { classify, isSchemaMissing } from "./faults.js";
import { joinPartitions, leavePartitions } from "./partitions.js";
import { type SteppedStatement, steps } from "./steps.js";

export const sqliteReceiving: ReceivingDialect = {
  name: "sqlite",
  embedded: true,
  defaults: { schema: "", inbox: "Inbox", outbox: "Outbox" },
  names,
  receiving: receiveStatements,
  toTime: (date) => date.getTime(),
  classify,
  isSchemaMissing,
};

const contents = ["topic", "payload", "hash", "correlation_id", "headers", "due_at", "expires_at"];
const columns = ["source", "message_id", ...contents, "partition_key"];

/** Deliveries as a table: from scalar parameters, or from a JSON array of objects with the same names. */
const scalar = `select ${columns.map((name) => `:${name} as ${name}`).join(", ")}`;
const json = `select ${columns
  .map((name) => `${name === "hash" ? `unhex(${field(name)})` : field(name)} as ${name}`)
  .join(", ")}
  from json_each(:items) i`;

function receiveStatements(n: QueueNames, options: ReceiveStatementOptions): ReceiveStatements {
  const many = receive(n, "receive many", json, options);
  return {
    receive: receive(n, "receive", scalar, options),
    receiveMany: many,
    receiveKeyed: many,
    mark: mark(n, options.blockOnDead),
  };
}

/**
 * First the states of known messages, while their messages still have the content of the delivery before; then the messages;
 * then the states of new messages.
 */
const receive = (
  n: QueueNames,
  name: string,
  deliveries: string,
  options: ReceiveStatementOptions,
): SteppedStatement =>
  steps(
    name,
    takeTimes(n, deliveries),
    enqueueKnown(n, deliveries, options.reviveDead),
    store(n, deliveries),
    `${addStates(n, "first_seen_at")} and m.deliveries = 1`,
    ...joinPartitions(n),
  );

/** The state `s` of the message `m` that the delivery `i` brings again. */
const ofKnown = (n: QueueNames, deliveries: string) => `from (${deliveries}) i
cross join ${n.message} m on m.source = i.source and m.message_id = i.message_id
where s.seq = m.seq`;

/**
 * New times of a message that waits. A lease stays as it is, and a back-off that has begun is not cut short. An expiry that a
 * replay removed is not set again by the same delivery.
 */
const takeTimes = (n: QueueNames, deliveries: string) => `update ${n.state} as s
set visible_at = case
    when s.locked_until is not null then s.visible_at
    when s.attempt = 0 then coalesce(i.due_at, m.first_seen_at)
    else max(s.visible_at, coalesce(i.due_at, 0))
  end,
  reclaimable_at = iif(s.locked_until is null, max(s.reclaimable_at, coalesce(i.due_at, 0)), s.reclaimable_at),
  expires_at = iif(i.expires_at is m.expires_at, s.expires_at, i.expires_at)
${ofKnown(n, deliveries)} and s.status in (${status.ready}, ${status.blocked})
  and (i.due_at is not m.due_at or i.expires_at is not m.expires_at)`;

/** A message that was only seen, or marked Processing by hand, takes the partition key; a revived one keeps its own. */
const enqueueKnown = (n: QueueNames, deliveries: string, reviveDead: boolean) => `update ${n.state} as s
set status = ${status.ready}, attempt = 0, crashes = 0, owner = null, locked_until = null, reclaimable_at = null, died_at = null,
  visible_at = coalesce(i.due_at, ${now}), expires_at = i.expires_at,
  keyed = iif(s.status = ${status.dead}, s.keyed, iif(i.partition_key is null, null, 1))
${ofKnown(n, deliveries)} and s.status in (${status.seen}, ${status.processing}${reviveDead ? `, ${status.dead}` : ""})
returning seq`;

/** A done message keeps the content that was handled. Any other takes the newest; a delivery without a hash keeps the hash. */
function store(n: QueueNames, deliveries: string): string {
  const m = n.message;
  const newest = (name: string) =>
    name === "hash" ? `coalesce(excluded.hash, ${m}.hash)` : `excluded.${name}`;
  const isDone = `exists (select 1 from ${doneTable(n)} d where d.seq = ${m}.seq)`;
  const stateIs = (condition: string) =>
    `exists (select 1 from ${n.state} s where s.seq = ${m}.seq and ${condition})`;
  return `insert into ${m} (${columns.join(", ")}, first_seen_at, last_seen_at)
select i.*, ${now}, ${now}
from (${deliveries}) i
where true
on conflict (source, message_id) do update
set (${contents.join(", ")}) = (
    select ${contents.map((name) => `iif(is_done, ${m}.${name}, ${newest(name)})`).join(",\n      ")}
    from (select ${isDone} as is_done)
  ),
  partition_key = iif(${m}.seq in ${stepSeqs} and ${stateIs("s.keyed")}, coalesce(${m}.partition_key, excluded.partition_key), ${m}.partition_key),
  last_seen_at = excluded.last_seen_at,
  deliveries = ${m}.deliveries + 1,
  content_changed = coalesce(${m}.hash <> excluded.hash, 0)
returning seq, source, message_id, case
  when content_changed then 'conflict'
  when deliveries = 1 or seq in ${stepSeqs} then 'enqueued'
  when ${isDone} then 'done'
  when ${stateIs(`s.status = ${status.dead}`)} then 'dead'
  else 'duplicate'
end as outcome`;
}

/** By hand, past any lease: Processing only from Seen; nothing from Done. */
const mark = (n: QueueNames, blockOnDead: boolean): SteppedStatement =>
  steps(
    "mark",
    `insert into ${n.message} (source, message_id, topic, payload, first_seen_at, last_seen_at)
values (:source, :message_id, '', '', ${now}, ${now})
on conflict (source, message_id) do update
set last_seen_at = excluded.last_seen_at
returning seq`,
    addSeen(n),
    `select s.seq
from ${n.state} s
where s.seq in ${stepSeqs} and (:status <> ${status.processing} or s.status = ${status.seen})`,
    `insert into ${doneTable(n)} (seq, processed_at, attempt, last_error)
select s.seq, ${now}, s.attempt, coalesce(:error, s.last_error)
from ${n.state} s
where s.seq in ${stepSeqs} and :status = ${status.done}`,
    `delete from ${n.state} where seq in ${stepSeqs} and :status = ${status.done}`,
    `update ${n.state} as s
set status = :status, owner = null, locked_until = null, reclaimable_at = null,
  last_error = coalesce(:error, s.last_error),
  error_group = iif(:error is null, s.error_group, :error_group),
  died_at = iif(:status = ${status.dead}, ${now}, s.died_at)
where s.seq in ${stepSeqs}`,
    leavePartitions(n, blockOnDead ? `:status <> ${status.dead}` : "true"),
  );

/** A step: a message that the step before has added is only seen. */
export const addSeen = (n: QueueNames) => `insert into ${n.state} (seq, status, visible_at)
select m.seq, ${status.seen}, m.first_seen_at
from ${n.message} m
where m.seq in ${stepSeqs} and not exists (select 1 from ${doneTable(n)} d where d.seq = m.seq)
on conflict (seq) do nothing`;
