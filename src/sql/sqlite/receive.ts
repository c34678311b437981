import {
  type ReceiveStatementOptions,
  type ReceiveStatements,
  type ReceivingDialect,
  status,
} from "../dialect.js";
import type { QueueNames } from "../names.js";
import { classify, isSchemaMissing, onlyIf, type SteppedStatement, steps } from "./connection.js";
import { addStates, doneTable, field, isOtherHash, names, now, stepSeqs } from "./expressions.js";
import { joinPartitions, leavePartitions } from "./partitions.js";

export const sqliteReceiving: ReceivingDialect<"sqlite"> = {
  name: "sqlite",
  embedded: true,
  defaults: { schema: "", inbox: "Inbox", outbox: "Outbox" },
  names,
  receiving: receiveStatements,
  toTime: (date) => date.getTime(),
  classify,
  isSchemaMissing,
};

const contents = ["topic", "type", "payload", "hash", "correlation_id", "headers", "due_at", "expires_at"];
const columns = ["source", "message_id", ...contents, "partition_key"];

/** Deliveries as a table: from scalar parameters, or from a JSON array of objects with the same names. */
const scalar = `select ${columns.map((name) => `:${name} as ${name}`).join(", ")}`;
const json = `select ${columns.map((name) => `${field(name)} as ${name}`).join(", ")}
  from json_each(:items) i`;

function receiveStatements(n: QueueNames, options: ReceiveStatementOptions): ReceiveStatements {
  return {
    receive: receive(n, "receive", scalar, options),
    receiveMany: receive(n, "receive many", json, options),
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
  { reviveDead, keepContent = false }: ReceiveStatementOptions,
): SteppedStatement =>
  steps(name, () => [
    findChanging(n, deliveries, { reviveDead: reviveDead && !keepContent, keepContent }),
    onlyIf("is_changing", changeKnown(n)),
    store(n, deliveries, keepContent),
    onlyIf("is_new", `${addStates(n, "first_seen_at")} and m.deliveries = 1`),
    // A single delivery brings no partition key, but a dead message may have one.
    ...(deliveries === scalar && !reviveDead ? [] : joinPartitions(n)),
  ]);

/**
 * Known messages whose states a delivery changes. One that was only seen, or marked Processing by hand, is enqueued now; so is
 * a dead one that is revived. One that waits takes new times. The others, nearly all, are not in it.
 */
const findChanging = (
  n: QueueNames,
  deliveries: string,
  { reviveDead, keepContent }: Pick<ReceiveStatementOptions, "reviveDead" | "keepContent">,
) => `select *, 1 as is_changing from (
  select m.seq, s.status in (${status.seen}, ${status.processing}${reviveDead ? `, ${status.dead}` : ""}) as enqueued,
    i.due_at is not m.due_at as has_new_due, i.expires_at is not m.expires_at as has_new_expiry,
    i.due_at, i.expires_at, m.first_seen_at, i.partition_key is not null as keyed, s.status
  from (${deliveries}) i
  cross join ${n.message} m on m.source = i.source and m.message_id = i.message_id
  cross join ${n.state} s on s.seq = m.seq
)
where enqueued${keepContent ? "" : ` or (status in (${status.ready}, ${status.blocked}) and (has_new_due or has_new_expiry))`}`;

/**
 * Of a message that waits, a lease stays as it is and a back-off that has begun is not cut short. An expiry that a replay
 * removed is not set again by the same delivery. A message that is enqueued for the first time takes the partition key; a
 * revived one keeps its own.
 */
const changeKnown = (n: QueueNames): string => {
  const enqueued = field("enqueued");
  return `update ${n.state} as s
set status = iif(${enqueued}, ${status.ready}, s.status),
  attempt = iif(${enqueued}, 0, s.attempt),
  crashes = iif(${enqueued}, 0, s.crashes),
  died_at = null,
  visible_at = case
    when ${enqueued} then coalesce(${field("due_at")}, ${now})
    when s.locked_until is not null then s.visible_at
    when s.attempt = 0 then coalesce(${field("due_at")}, ${field("first_seen_at")})
    else max(s.visible_at, coalesce(${field("due_at")}, 0))
  end,
  reclaimable_at = case
    when ${enqueued} then null
    when s.locked_until is not null then s.reclaimable_at
    else max(s.reclaimable_at, coalesce(${field("due_at")}, 0))
  end,
  owner = iif(${enqueued}, null, s.owner),
  locked_until = iif(${enqueued}, null, s.locked_until),
  expires_at = iif(${enqueued} or ${field("has_new_expiry")}, ${field("expires_at")}, s.expires_at),
  keyed = iif(${enqueued} and s.status <> ${status.dead}, nullif(${field("keyed")}, 0), s.keyed)
from json_each(:rows) i
where s.seq = ${field("seq")}`;
};

/**
 * A done message keeps the content that was handled. Any other takes the newest; a delivery without a hash keeps the hash.
 * A known message brings its row number. A conflict of its key would take a new one first, and write the page that counts them.
 */
function store(n: QueueNames, deliveries: string, keepContent: boolean): string {
  const m = n.message;
  const newest = (name: string) =>
    name === "hash" ? `coalesce(excluded.hash, ${m}.hash)` : `excluded.${name}`;
  const isDone = `exists (select 1 from ${doneTable(n)} d where d.seq = ${m}.seq)`;
  const isEnqueued = `${m}.seq in (select ${field("seq")} from json_each(:rows) i where ${field("enqueued")})`;
  const stateIs = (condition: string) =>
    `exists (select 1 from ${n.state} s where s.seq = ${m}.seq and ${condition})`;
  return `insert into ${m} (seq, ${columns.join(", ")}, first_seen_at, last_seen_at)
select known.seq, i.*, ${now}, ${now}
from (${deliveries}) i
left join ${m} known on known.source = i.source and known.message_id = i.message_id
where true
on conflict (seq) do update
set (${contents.join(", ")}) = (
    select ${contents.map((name) => `iif(is_kept, ${m}.${name}, ${newest(name)})`).join(",\n      ")}
    from (select ${keepContent ? `not ${isEnqueued}` : isDone} as is_kept)
  ),
  partition_key = iif(${isEnqueued} and ${stateIs("s.keyed")}, coalesce(${m}.partition_key, excluded.partition_key), ${m}.partition_key),
  last_seen_at = excluded.last_seen_at,
  deliveries = ${m}.deliveries + 1,
  content_changed = ${isOtherHash(`${m}.hash`, "excluded.hash")}
returning seq, source, message_id, deliveries = 1 as is_new, case
  when content_changed then 'conflict'
  when deliveries = 1 or ${isEnqueued} then 'enqueued'
  when ${isDone} then 'done'
  when ${stateIs(`s.status = ${status.dead}`)} then 'dead'
  else 'duplicate'
end as outcome`;
}

/** By hand, past any lease: Processing only from Seen; nothing from Done. */
const mark = (n: QueueNames, blockOnDead: boolean): SteppedStatement =>
  steps("mark", () => [
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
  ]);

/** A step: a message that the step before has added is only seen. */
export const addSeen = (n: QueueNames) => `insert into ${n.state} (seq, status, visible_at)
select m.seq, ${status.seen}, m.first_seen_at
from ${n.message} m
where m.seq in ${stepSeqs} and not exists (select 1 from ${doneTable(n)} d where d.seq = m.seq)
on conflict (seq) do nothing`;
