import { status } from "../dialect.js";
import type { QueueNames } from "../names.js";
import { pendingArrivals } from "./partitions.js";
import { create } from "./routine.js";

const columns = [
  ["id", "uuid"],
  ["message_id", "uuid"],
  ["topic", "text"],
  ["payload", "text"],
  ["correlation_id", "text"],
  ["headers", "text"],
  ["due_at", "timestamptz"],
  ["expires_at", "timestamptz"],
  ["partition_key", "text"],
  ["natural_key", "text"],
] as const;
const names = columns.map(([name]) => name).join(", ");
const items = `json_to_recordset(p_items) as i(${columns.map(([name, type]) => `${name} ${type}`).join(", ")})`;

/**
 * Adds the messages whose natural keys the outbox does not have, and returns the ids of those that have the others' keys. A
 * function, because an insert that waited for another transaction does not see what that one has committed: the next step
 * does. When the known message is deleted between the two steps, the next round adds its successor.
 */
export const enqueueOnceFunction = (n: QueueNames): string =>
  create(
    n.object("_enqueue_once"),
    "json, timestamptz",
    "(p_items json, p_now timestamptz) returns table (id uuid, known_id uuid)",
    `#variable_conflict use_column
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_pending integer;
begin
  loop
    with added as (
      insert into ${n.message} (${names}, created_at)
      select ${columns.map(([name]) => `i.${name}`).join(", ")}, v_now
      from ${items}
      on conflict do nothing
      returning seq, due_at, expires_at, partition_key
    ), arrivals as (
      insert into ${pendingArrivals(n)} (seqs)
      select array_agg(a.seq) from added a where a.partition_key is not null having count(*) > 0
    )
    insert into ${n.state} (seq, status, visible_at, expires_at, keyed)
    select a.seq, case when a.partition_key is null then ${status.ready} else ${status.blocked} end, coalesce(a.due_at, v_now),
      a.expires_at, case when a.partition_key is not null then true end
    from added a;

    select count(*) into v_pending
    from ${items}
    where i.natural_key is not null and not exists (
      select from ${n.message} m where m.topic = i.topic and m.natural_key = i.natural_key
    );
    exit when v_pending = 0;
  end loop;

  return query
  select i.id, m.id
  from ${items}
  join ${n.message} m on m.topic = i.topic and m.natural_key = i.natural_key;
end`,
    // A plan may be cached while the table is nearly empty.
    "set enable_seqscan = off",
  );
