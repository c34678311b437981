import type { ReceiveStatementOptions, ReceiveStatements } from "../dialect.js";
import { status } from "../dialect.js";
import { statement } from "../driver.js";
import { lazily } from "../lazily.js";
import type { QueueNames } from "../names.js";
import { field, firstSeq, nextSeq, now, nowWithin, oldStatus, unclaimable } from "./expressions.js";

/** Where new messages come from: scalar parameters, or a JSON array of objects with the same names. */
const scalarInbox = `:source, :message_id, :topic, :payload, :hash, :correlation_id, :headers, :due_at, :expires_at`;
const jsonInbox = `${field("source")}, ${field("message_id")}, ${field("topic")}, ${field("payload")}, unhex(${field("hash")}),
  ${field("correlation_id")}, ${field("headers")}, ${field("due_at")}, ${field("expires_at")}`;

export function receiveStatements(n: QueueNames, options: ReceiveStatementOptions): ReceiveStatements {
  const m = n.message;
  const statusBefore = oldStatus(n);
  // A done message keeps the content that was handled; any other takes the newest (IBX-028, IBX-029).
  const newest = (column: string) =>
    column === "hash" ? `coalesce(excluded.hash, ${m}.hash)` : `excluded.${column}`;
  const unlessDone = (column: string) =>
    `${column} = case when ${statusBefore} = ${status.done} then ${m}.${column} else ${newest(column)} end`;
  const contents = ["topic", "payload", "hash", "correlation_id", "headers", "due_at", "expires_at"];

  // RETURNING is computed before the AFTER triggers run, so the status it reads is the one of before.
  const add = (values: string, more = "") => `insert into ${m} (seq, source, message_id, topic, payload, hash,
  correlation_id, headers, due_at, expires_at${more}, first_seen_at, last_seen_at)
${values}`;
  const one = add(`values (${nextSeq(n)}, ${scalarInbox}, ${nowWithin}, ${nowWithin})`);
  const many = add(
    `select :first_seq + i.key, ${jsonInbox}, ${now}, ${now} from json_each(:items) i where true`,
  );
  const manyKeyed = add(
    `select :first_seq + i.key, ${jsonInbox}, ${field("partition_key")}, ${now}, ${now} from json_each(:items) i where true`,
    ", partition_key",
  );
  // Only one that was never enqueued takes the key; a revived one looks like that, but has kept its own.
  const takeKey = `partition_key = case
    when ${statusBefore} = ${status.seen} or exists (select 1 from ${n.state} where seq = ${m}.seq and ${unclaimable})
      then coalesce(${m}.partition_key, excluded.partition_key)
    else ${m}.partition_key
  end,
  `;
  const receive = (insert: string, more = "") => `${insert}
on conflict (source, message_id) do update
set ${more}${contents.map(unlessDone).join(",\n  ")},
  last_seen_at = excluded.last_seen_at,
  deliveries = ${m}.deliveries + 1,
  content_changed = coalesce(${m}.hash <> excluded.hash, 0)
returning source, message_id, content_changed, deliveries = 1 or exists (select 1 from ${n.state} where seq = ${m}.seq and ${unclaimable}) as enqueued, ${statusBefore} as old_status`;

  // A new message, or one that comes again with nothing new: handled, or the same and not waiting in a state row.
  const keepsItself = ["topic", "payload", "correlation_id", "headers", "due_at", "expires_at"]
    .map((column) => `${m}.${column} is excluded.${column}`)
    .join(" and ");
  const receivePlainly = `${one}
on conflict (source, message_id) do update
set last_seen_at = excluded.last_seen_at,
  deliveries = ${m}.deliveries + 1,
  content_changed = coalesce(${m}.hash <> excluded.hash, 0)
where case ${statusBefore}
  when ${status.done} then true
  when ${status.seen} then false
  when ${status.ready} then false
  else (excluded.hash is null or ${m}.hash is excluded.hash) and ${keepsItself}
end
returning content_changed, deliveries = 1 as enqueued, ${statusBefore} as old_status`;

  // To revive is to forget that it died: as Seen, the delivery that follows in the same transaction wakes it.
  const revive = (keys: string) => `update ${n.state}
set status = ${status.seen}, attempt = 0, crashes = 0
where status = ${status.dead} and seq in (select m.seq from ${m} m where (m.source, m.message_id) in (${keys}))`;
  const reviving = (keys: string) => (options.reviveDead ? [revive(keys)] : []);

  return lazily({
    receive: () =>
      options.reviveDead
        ? statement("receive", revive("values (:source, :message_id)"), receive(one))
        : { ...statement("receive", receive(one)), shortcut: [receivePlainly] },
    receiveMany: () => ({
      constants: firstSeq(n),
      ...statement(
        "receive many",
        ...reviving(`select ${field("source")}, ${field("message_id")} from json_each(:items) i`),
        receive(many),
      ),
    }),
    receiveKeyed: () => ({
      constants: firstSeq(n),
      ...statement(
        "receive keyed",
        ...reviving(`select ${field("source")}, ${field("message_id")} from json_each(:items) i`),
        receive(manyKeyed, takeKey),
      ),
    }),
  });
}
