import {
  type ReceiveStatementOptions,
  type ReceiveStatements,
  type ReceivingDialect,
  status,
} from "../dialect.js";
import type { QueueNames } from "../names.js";
import {
  awaitsDelivery,
  endOfTime,
  field,
  foundStatus,
  isUnclaimed,
  names,
  nextSeq,
  now,
  ownNow,
  readFirstSeq,
  seqInBatch,
  stepSeqs,
} from "./expressions.js";
import { classify, isSchemaMissing } from "./faults.js";
import { leave } from "./partitions.js";
import { steps } from "./steps.js";

/** The values of new messages: scalar parameters, or a JSON array of objects with the same names. */
const scalarInbox = `:source, :message_id, :topic, :payload, :hash, :correlation_id, :headers, :due_at, :expires_at`;
const jsonInbox = `${field("source")}, ${field("message_id")}, ${field("topic")}, ${field("payload")}, unhex(${field("hash")}),
  ${field("correlation_id")}, ${field("headers")}, ${field("due_at")}, ${field("expires_at")}`;

function receiveStatements(n: QueueNames, options: ReceiveStatementOptions): ReceiveStatements {
  const m = n.message;
  const statusBefore = foundStatus(n);
  // A done message keeps the content that was handled, and so does a key that is leased now. Any other takes the newest.
  // As one row, so that the state is looked up once.
  const contents = ["topic", "payload", "hash", "correlation_id", "headers", "due_at", "expires_at"];
  const newest = (column: string) =>
    column === "hash" ? `coalesce(excluded.hash, ${m}.hash)` : `excluded.${column}`;
  const takeContent = `(${contents.join(", ")}) = (
    select ${contents.map((column) => `iif(is_kept, ${m}.${column}, ${newest(column)})`).join(",\n      ")}
    from (select exists (
      select 1 from ${n.state} s
      where s.seq = ${m}.seq and (s.status = ${status.done} or (s.status = ${status.leased} and s.locked_until > excluded.last_seen_at))
    ) as is_kept)
  )`;
  const isAwaited = (time: string) =>
    `exists (select 1 from ${n.state} where seq = ${m}.seq and ${awaitsDelivery(time)})`;

  // RETURNING is computed before the AFTER triggers run, so it reads the status from before the delivery.
  const add = (values: string, more = "") => `insert into ${m} (seq, source, message_id, topic, payload, hash,
  correlation_id, headers, due_at, expires_at${more}, first_seen_at, last_seen_at)
${values}`;
  const one = add(`values (${nextSeq(n)}, ${scalarInbox}, ${ownNow}, ${ownNow})`);
  const many = add(`select ${seqInBatch}, ${jsonInbox}, ${now}, ${now} from json_each(:items) i where true`);
  const manyKeyed = add(
    `select ${seqInBatch}, ${jsonInbox}, ${field("partition_key")}, ${now}, ${now} from json_each(:items) i where true`,
    ", partition_key",
  );
  // Only a message that was never enqueued takes the partition key. A revived one has the same status, but keeps its own.
  const takeKey = `partition_key = case
    when ${isAwaited("excluded.last_seen_at")} then coalesce(${m}.partition_key, excluded.partition_key)
    else ${m}.partition_key
  end,
  `;
  const receive = (insert: string, keys: string, more = "") => `${insert}
on conflict (source, message_id) do update
set ${more}${takeContent},
  last_seen_at = excluded.last_seen_at,
  deliveries = ${m}.deliveries + 1,
  content_changed = coalesce(${m}.hash <> excluded.hash, 0)
returning ${keys}content_changed, deliveries = 1 or ${isAwaited(`${m}.last_seen_at`)} as enqueued, ${statusBefore} as old_status`;

  // A dead message is revived by making it Seen: the delivery in the next step then makes it claimable.
  const revive = (keys: string) => `update ${n.state}
set status = ${status.seen}, attempt = 0, crashes = 0, died_at = null
where status = ${status.dead} and seq in (select m.seq from ${m} m where (m.source, m.message_id) in (${keys}))`;
  const reviving = (keys: string) => (options.reviveDead ? [revive(keys)] : []);

  const keys = "source, message_id, ";
  const sentKeys = `select ${field("source")}, ${field("message_id")} from json_each(:items) i`;

  return {
    receive: steps("receive", ...reviving("values (:source, :message_id)"), receive(one, "")),
    receiveMany: steps("receive many", ...reviving(sentKeys), readFirstSeq(n), receive(many, keys)),
    receiveKeyed: steps(
      "receive keyed",
      ...reviving(sentKeys),
      readFirstSeq(n),
      receive(manyKeyed, keys, takeKey),
    ),
    mark: steps(
      "mark",
      `insert into ${m} (seq, source, message_id, topic, payload, first_seen_at, last_seen_at)
values (${nextSeq(n)}, :source, :message_id, '', '', ${now}, ${now})
on conflict (source, message_id) do update
set last_seen_at = excluded.last_seen_at
returning seq`,
      `insert into ${n.state} (seq, status, visible_at)
select m.seq, ${status.ready}, m.first_seen_at
from json_each(:seqs)
join ${m} m on m.seq = value
where ${isUnclaimed(n, "value")}`,
      `update ${n.state} as s
set status = :status,
  owner = null,
  locked_until = null,
  visible_at = ${endOfTime},
  processed_at = case when :status = ${status.done} then ${now} end,
  last_error = coalesce(:error, s.last_error),
  error_group = iif(:error is null, s.error_group, :error_group),
  died_at = case when :status = ${status.dead} then ${now} end
where s.seq in ${stepSeqs}
  and case :status when ${status.held} then s.status = ${status.seen} else s.status <> ${status.done} end
returning seq`,
      leave(n, options.blockOnDead ? `:status <> ${status.dead}` : "true"),
    ),
  };
}

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
