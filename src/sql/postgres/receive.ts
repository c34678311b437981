import {
  type ReceiveStatementOptions,
  type ReceiveStatements,
  type ReceivingDialect,
  status,
} from "../dialect.js";
import type { QueueNames } from "../names.js";
import { doneTable, named, names, now } from "./expressions.js";
import { classify, isDenied, isSchemaMissing } from "./faults.js";

export const postgresReceiving: ReceivingDialect<"postgres"> = {
  name: "postgres",
  embedded: false,
  defaults: { schema: "infra", inbox: "inbox", outbox: "outbox" },
  names,
  receiving: receiveStatements,
  toTime: (date) => date.toISOString(),
  classify,
  isSchemaMissing,
  isDenied,
};

function receiveStatements(n: QueueNames, options: ReceiveStatementOptions): ReceiveStatements {
  const revive = options.keepContent ? "null" : String(options.reviveDead); // without a word on reviving, nothing is rewritten
  return named({
    // The usual cases, a new message and the same one again, are one statement. Only a delivery that changes a known
    // message calls the function, which decides step by step. When neither a state row nor a done row is visible,
    // another delivery committed the message while this statement ran: it is a duplicate.
    receive: `with stored as (
  insert into ${n.message} as m (source, message_id, topic, type, payload, hash, correlation_id, headers, due_at, expires_at,
    first_seen_at, last_seen_at)
  values (:source, :message_id, :topic, :type, :payload, :hash, :correlation_id, :headers, :due_at::timestamptz,
    :expires_at::timestamptz, ${now}, ${now})
  on conflict (source, message_id) do update
  set last_seen_at = excluded.last_seen_at, deliveries = m.deliveries + 1, content_changed = false
  where m.topic = excluded.topic and m.type is not distinct from excluded.type and m.payload = excluded.payload and coalesce(m.hash = excluded.hash, excluded.hash is null)
    and m.headers is not distinct from excluded.headers and m.correlation_id is not distinct from excluded.correlation_id
    and m.due_at is not distinct from excluded.due_at and m.expires_at is not distinct from excluded.expires_at${
      options.reviveDead && !options.keepContent
        ? `
    and not exists (select from ${n.state} s where s.seq = m.seq and s.status = ${status.dead})`
        : ""
    }
  returning m.seq, m.deliveries = 1 as is_new, coalesce(m.due_at, m.first_seen_at) as visible_at, m.expires_at
), state as (
  insert into ${n.state} (seq, status, visible_at, expires_at)
  select seq, ${status.ready}, visible_at, expires_at
  from stored
  where is_new
)
select case
  when a.seq is null then ${n.object("_receive")}(:source, :message_id, :topic, :type, :payload, :hash, :correlation_id, :headers,
    :due_at::timestamptz, :expires_at::timestamptz, null, ${revive}, :now::timestamptz)
  when a.is_new then 'enqueued'
  else coalesce(
    (select case s.status when ${status.dead} then 'dead' else 'duplicate' end from ${n.state} s where s.seq = a.seq),
    (select 'done' from ${doneTable(n)} d where d.seq = a.seq),
    'duplicate'
  )
end as outcome
from (values (1)) always
left join stored a on true`,
    receiveMany: `select r.* from ${n.object("_receive_many")}(:items::json, ${revive}, :now::timestamptz) r`,
    mark: `select seq
from ${n.object("_mark")}(:source, :message_id, :status::smallint, :error, :error_group, ${options.blockOnDead}, :now::timestamptz) as seq
where seq is not null`,
  });
}
