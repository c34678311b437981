import { status } from "../../dialect.js";
import type { QueueNames } from "../../names.js";
import { asBit, asInt, binary, differs } from "../expressions.js";
import { inboxColumns } from "../json-functions.js";
import { arrivedTable, lockEnds } from "../partitions.js";
import { contents, keyed, parametersAsRow, waiting } from "./message-parameters.js";
import { atomically, seekEach, stateOf } from "./procedure.js";
import { comeBack } from "./rejoin-partition.js";
import { inserted } from "./rows.js";

/** Where new messages come from: the procedure's own parameters, or a table filled from JSON. */
export const scalarInbox = parametersAsRow(inboxColumns);

/** Of two times that may be missing. */
const isOther = (before: string, after: string): string =>
  `(${before} <> ${after} or (${before} is null and ${after} is not null) or (${before} is not null and ${after} is null))`;

/**
 * Finds and locks what is known, message before state, then writes each at most once. What another
 * call inserts in between ends this one with a duplicate key, and the caller's retry then finds it:
 * a range lock that would prevent it would also make every new key wait for its neighbour.
 */
export function receive(n: QueueNames, incoming: string, hasKeys = false): string {
  const m = n.bare("");
  const s = stateOf(n);
  // A done message keeps the content that was handled; any other takes the newest (IBX-028, IBX-029).
  const newest = (c: string) => (c === "hash" ? `coalesce(i.hash, ${m}.hash)` : `i.${c}`);
  const unlessDone = (c: string) =>
    `${c} = case when k.old_status = ${status.done} then ${m}.${c} else ${newest(c)} end`;
  const inserts = hasKeys ? [...contents, "partition_key"] : contents;
  const arrived = [
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
declare @arrived table (
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
declare @woken table (seq bigint not null primary key);

${atomically(`${hasKeys ? `${lockEnds(n, "ends", "@incoming")}\n\n` : ""}insert into @known (seq, source, message_id, old_status, due_at, expires_at)
select m.seq, m.source, m.message_id, s.status, m.due_at, m.expires_at
from ${incoming}
inner join ${n.message} m with (updlock, rowlock) on m.source = i.source and m.message_id = i.message_id
inner join ${n.state} s with (updlock, rowlock) on s.seq = m.seq
${seekEach};

update ${n.message}
set ${contents.map(unlessDone).join(",\n  ")},
  last_seen_at = @now,
  deliveries = ${m}.deliveries + 1,
  content_changed = ${asInt(differs(`${m}.hash`, "i.hash"))}
output ${inserted(arrived)}
into @arrived (${arrived.join(", ")})
from @known k, ${incoming}, ${n.message} with (rowlock)
where i.source = k.source and i.message_id = k.message_id and ${m}.seq = k.seq
${seekEach};

-- purged between the two, where the server takes no update locks
delete from @known where seq not in (select a.seq from @arrived a);

update ${n.state}
set visible_at = case
    when ${s}.attempt = 0 then coalesce(a.due_at, a.first_seen_at)
    when a.due_at > ${s}.visible_at then a.due_at
    else ${s}.visible_at
  end,
  -- one that a replay took away does not come back with the same delivery
  expires_at = case when ${isOther("k.expires_at", "a.expires_at")} then a.expires_at else ${s}.expires_at end
from @arrived a, @known k, ${n.state} with (rowlock)
where k.seq = a.seq and ${s}.seq = a.seq and ${s}.status in (${status.ready}, ${status.blocked})
  and (${isOther("k.due_at", "a.due_at")} or ${isOther("k.expires_at", "a.expires_at")})
${seekEach};

update ${n.state}
set status = ${status.ready},
  attempt = 0,
  crashes = 0,
  visible_at = coalesce(a.due_at, a.last_seen_at),
  expires_at = a.expires_at
output inserted.seq into @woken (seq)
from @arrived a, ${n.state} with (rowlock)
where ${s}.seq = a.seq
  and (${s}.status = ${status.seen}
    or (${s}.status = ${status.held} and ${s}.locked_until is null and ${s}.crashes = 0) -- Processing by hand only
    or (${s}.status = ${status.dead} and @revive = 1))
${seekEach};
${
  hasKeys
    ? `
-- only now it is enqueued for the first time; one that is revived keeps the key it has
update ${n.message}
set partition_key = i.partition_key
from @woken w, @known k, ${incoming}, ${n.message} with (rowlock)
where k.seq = w.seq and k.old_status <> ${status.dead} and i.source = k.source and i.message_id = k.message_id
  and ${m}.seq = w.seq
${seekEach};
`
    : ""
}
${comeBack(n, "@woken", "1 = 1")}

insert into ${n.message} (source, message_id, ${inserts.join(", ")}, first_seen_at, last_seen_at, deliveries, content_changed)
output ${inserted(arrived)}
into @arrived (${arrived.join(", ")})
select i.source, i.message_id, ${inserts.map((c) => `i.${c}`).join(", ")}, @now, @now, 1, 0
from ${incoming}
where not exists (select 1 from @known k where k.source = i.source and k.message_id = i.message_id)
order by i.position;

${
  hasKeys
    ? `insert into ${n.state} (seq, status, visible_at, expires_at, keyed)
select a.seq, ${waiting}, coalesce(a.due_at, a.first_seen_at), a.expires_at, ${keyed}
from @arrived a
inner join ${incoming} on i.source = a.source and i.message_id = a.message_id
where a.deliveries = 1;

insert into ${arrivedTable(n)} (seq, partition_key)
select a.seq, i.partition_key
from @arrived a
inner join ${incoming} on i.source = a.source and i.message_id = a.message_id
where a.deliveries = 1 and i.partition_key is not null
order by a.seq;`
    : `insert into ${n.state} (seq, status, visible_at, expires_at)
select a.seq, ${status.ready}, coalesce(a.due_at, a.first_seen_at), a.expires_at
from @arrived a
where a.deliveries = 1;`
}`)}

select a.source as source, a.message_id as message_id, a.content_changed as content_changed,
  ${asBit("a.deliveries = 1 or w.seq is not null")} as enqueued, k.old_status as old_status
from @arrived a
left join @woken w on w.seq = a.seq
left join @known k on k.seq = a.seq;`;
}
