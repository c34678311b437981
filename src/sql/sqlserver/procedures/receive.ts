import { status } from "../../dialect.js";
import type { QueueNames } from "../../names.js";
import { asBit, asInt, binary, differs, endOfTime } from "../expressions.js";
import { inboxColumns } from "../json-functions.js";
import { lockArrivals, pendingArrivalsTable } from "../partitions.js";
import { contents, firstStatus, keyed, parametersAsRow } from "./message-parameters.js";
import { atomically, isFreeKey, seekEach, stateTable } from "./procedure.js";
import { rejoinPartition } from "./rejoin-partition.js";
import { inserted } from "./rows.js";

/** The received message as a table: the procedure's own parameters. A batch comes as a table that is filled from JSON. */
export const scalarInbox = parametersAsRow(inboxColumns);

/** Whether two times that may be null differ. */
const isOther = (before: string, after: string): string =>
  `(${before} <> ${after} or (${before} is null and ${after} is not null) or (${before} is not null and ${after} is null))`;

/**
 * Finds and locks the known messages, message before state, then writes each row at most once. When another call inserts
 * the same key in between, this one ends with a duplicate key, and the caller's retry finds the message. A range lock would
 * prevent that, but would also make every new key wait for its neighbour.
 */
export function receive(n: QueueNames, newMessages: string, hasKeys = false): string {
  const m = n.bare("");
  const s = stateTable(n);
  // A done message keeps the content that was handled, and a leased key its own; any other gets the newest.
  const newest = (c: string) => (c === "hash" ? `coalesce(i.hash, ${m}.hash)` : `i.${c}`);
  const unlessDone = (c: string) =>
    `${c} = case when k.old_status in (${status.done}, ${status.leased}) then ${m}.${c} else ${newest(c)} end`;
  const inserts = hasKeys ? [...contents, "partition_key"] : contents;
  const receivedColumns = [
    "seq",
    "source",
    "message_id",
    "due_at",
    "expires_at",
    "first_seen_at",
    "last_seen_at",
    "deliveries",
    "content_changed",
  ];
  return `declare @known table (
  seq bigint not null primary key,
  source nvarchar(255) ${binary} not null,
  message_id nvarchar(255) ${binary} not null,
  old_status tinyint not null,
  due_at datetime2(3) null,
  expires_at datetime2(3) null
);
declare @received table (
  seq bigint not null primary key,
  source nvarchar(255) ${binary} not null,
  message_id nvarchar(255) ${binary} not null,
  due_at datetime2(3) null,
  expires_at datetime2(3) null,
  first_seen_at datetime2(3) not null,
  last_seen_at datetime2(3) not null,
  deliveries int not null,
  content_changed bit not null
);
declare @enqueued table (seq bigint not null primary key);

${atomically(`${hasKeys ? `${lockArrivals(n, "keys", "@messages")}\n\n` : ""}insert into @known (seq, source, message_id, old_status, due_at, expires_at)
select m.seq, m.source, m.message_id, case when ${isFreeKey("s")} then ${status.seen} else s.status end, m.due_at, m.expires_at
from ${newMessages}
inner join ${n.message} m with (updlock, rowlock) on m.source = i.source and m.message_id = i.message_id
inner join ${n.state} s with (updlock, rowlock) on s.seq = m.seq
${seekEach};

update ${n.message}
set ${contents.map(unlessDone).join(",\n  ")},
  last_seen_at = @now,
  deliveries = ${m}.deliveries + 1,
  content_changed = ${asInt(differs(`${m}.hash`, "i.hash"))}
output ${inserted(receivedColumns)}
into @received (${receivedColumns.join(", ")})
from @known k, ${newMessages}, ${n.message} with (rowlock)
where i.source = k.source and i.message_id = k.message_id and ${m}.seq = k.seq
${seekEach};

-- messages that were purged between the two statements, on a server that ignores updlock
delete from @known where seq not in (select a.seq from @received a);

update ${n.state}
set visible_at = case
    when ${s}.attempt = 0 then coalesce(a.due_at, a.first_seen_at)
    when a.due_at > ${s}.visible_at then a.due_at
    else ${s}.visible_at
  end,
  -- an expiry that a replay removed is not set again by the same delivery
  expires_at = case when ${isOther("k.expires_at", "a.expires_at")} then a.expires_at else ${s}.expires_at end
from @received a, @known k, ${n.state} with (rowlock)
where k.seq = a.seq and ${s}.seq = a.seq and (${s}.status in (${status.ready}, ${status.blocked}, ${status.parked})
    or (${s}.status = ${status.held} and ${s}.locked_until is null and ${s}.visible_at < ${endOfTime}))
  and (${isOther("k.due_at", "a.due_at")} or ${isOther("k.expires_at", "a.expires_at")})
${seekEach};

update ${n.state}
set status = ${status.ready},
  attempt = 0,
  crashes = 0,
  owner = null,
  locked_until = null,
  visible_at = coalesce(a.due_at, a.last_seen_at),
  expires_at = a.expires_at
output inserted.seq into @enqueued (seq)
from @received a, ${n.state} with (rowlock)
where ${s}.seq = a.seq
  and (${s}.status = ${status.seen}
    or ${isFreeKey(s)}
    or (${s}.status = ${status.held} and ${s}.visible_at = ${endOfTime}) -- marked Processing by hand
    or (${s}.status = ${status.dead} and @revive = 1))
${seekEach};
${
  hasKeys
    ? `
-- it is enqueued for the first time; a revived message keeps its key
update ${n.message}
set partition_key = i.partition_key
from @enqueued w, @known k, ${newMessages}, ${n.message} with (rowlock)
where k.seq = w.seq and k.old_status <> ${status.dead} and i.source = k.source and i.message_id = k.message_id
  and ${m}.seq = w.seq
${seekEach};
`
    : ""
}
${rejoinPartition(n, "@enqueued", "1 = 1")}

insert into ${n.message} (source, message_id, ${inserts.join(", ")}, first_seen_at, last_seen_at, deliveries, content_changed)
output ${inserted(receivedColumns)}
into @received (${receivedColumns.join(", ")})
select i.source, i.message_id, ${inserts.map((c) => `i.${c}`).join(", ")}, @now, @now, 1, 0
from ${newMessages}
where not exists (select 1 from @known k where k.source = i.source and k.message_id = i.message_id)
order by i.position;

${
  hasKeys
    ? `insert into ${n.state} (seq, status, visible_at, expires_at, keyed)
select a.seq, ${firstStatus}, coalesce(a.due_at, a.first_seen_at), a.expires_at, ${keyed}
from @received a
inner join ${newMessages} on i.source = a.source and i.message_id = a.message_id
where a.deliveries = 1;

insert into ${pendingArrivalsTable(n)} (seq, partition_key)
select a.seq, i.partition_key
from @received a
inner join ${newMessages} on i.source = a.source and i.message_id = a.message_id
where a.deliveries = 1 and i.partition_key is not null
order by a.seq;`
    : `insert into ${n.state} (seq, status, visible_at, expires_at)
select a.seq, ${status.ready}, coalesce(a.due_at, a.first_seen_at), a.expires_at
from @received a
where a.deliveries = 1;`
}`)}

select a.source as source, a.message_id as message_id, a.content_changed as content_changed,
  ${asBit("a.deliveries = 1 or w.seq is not null")} as enqueued, k.old_status as old_status
from @received a
left join @enqueued w on w.seq = a.seq
left join @known k on k.seq = a.seq;`;
}
