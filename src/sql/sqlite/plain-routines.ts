import { maxNameLength } from "../../queue/arguments.js";
import { status } from "../dialect.js";
import { literal, type QueueNames } from "../names.js";
import { plainColumns, refusals, times } from "../plain-routines.js";
import { doneTable, isOtherHash, messages, partitionQueue, statusOf } from "./expressions.js";

/**
 * The view through which other languages put a message into the queue: SQLite has no routines. Its trigger checks the message and
 * hands it to a second view, whose trigger has what was computed once (id, time, the state before) as the values of its row.
 * Written for SQLite 3.38, which other languages may bring: newer functions would make the whole schema unreadable to them.
 */
export const plainRoutine = (n: QueueNames): readonly string[] =>
  n.kind === "inbox" ? receiveViews(n) : enqueueViews(n);

const content = [
  "topic",
  "type",
  "payload",
  "correlation_id",
  "headers",
  "due_at",
  "expires_at",
  "partition_key",
];

const clock = "cast(round((julianday('now') - 2440587.5) * 86400000) as integer)";
/** Milliseconds since 1970, or a text that SQLite's date functions read. */
const instant = (column: string) =>
  `case when typeof(${column}) in ('null', 'integer') then ${column} else cast(round((julianday(${column}) - 2440587.5) * 86400000) as integer) end`;
/** A column as the tables store it. */
const stored = (column: string): string => {
  if (column === "due_at" || column === "expires_at") return instant(`new.${column}`);
  if (column === "hash") return "lower(new.hash)";
  return column === "correlation_id" ? "nullif(new.correlation_id, '')" : `new.${column}`;
};

const randomId = `lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' || substr(hex(randomblob(2)), 2) || '-' ||
    substr('89ab', 1 + abs(random() % 4), 1) || substr(hex(randomblob(2)), 2) || '-' || hex(randomblob(6)))`;

function enqueueViews(n: QueueNames): readonly string[] {
  const columns = [...content, "natural_key"];
  const view = n.object("_Enqueue");
  const checked = n.object("_Enqueuing");
  const m = `${n.message} m where m.id = new.id`;
  return [
    `drop view if exists ${view}`,
    `drop view if exists ${checked}`,
    `create view ${view} as
select ${columns.join(", ")}, id, message_id
from ${n.message}`,
    `create view ${checked} as
select ${columns.join(", ")}, id, message_id, 0 as now
from ${n.message}`,
    trigger(
      n.object("_CheckEnqueue"),
      view,
      `${checks(n)}
  insert into ${checked} (${columns.join(", ")}, id, message_id, now)
  values (${columns.map(stored).join(", ")}, coalesce(lower(new.id), ${randomId}), lower(new.message_id), ${clock});`,
    ),
    trigger(
      n.object("_AddEnqueued"),
      checked,
      `insert into ${n.message} (${columns.join(", ")}, id, message_id, created_at)
  values (${columns.map((name) => `new.${name}`).join(", ")}, new.id, coalesce(new.message_id, new.id), new.now)
  on conflict do nothing;
  insert into ${n.state} (seq, status, visible_at, expires_at, keyed)
  select m.seq, ${status.ready}, coalesce(m.due_at, m.created_at), m.expires_at, iif(m.partition_key is null, null, 1)
  from ${m} and not exists (select 1 from ${doneTable(n)} d where d.seq = m.seq)
  on conflict (seq) do nothing;
  ${joinPartition(n, m)}`,
    ),
  ];
}

/**
 * A known message keeps its content and times: whoever may add messages must not rewrite those of others. One that was only seen has
 * none yet, and is enqueued.
 */
function receiveViews(n: QueueNames): readonly string[] {
  const contents = [...content.filter((name) => name !== "partition_key"), "hash"];
  const columns = ["source", "message_id", ...contents, "partition_key"];
  const view = n.object("_Receive");
  const checked = n.object("_Receiving");
  const before = ["seq", "enqueued", "now"];
  const m = `${n.message} m where m.source = new.source and m.message_id = new.message_id`;
  const newest = (name: string) =>
    name === "hash" ? `coalesce(new.hash, ${n.message}.hash)` : `new.${name}`;
  return [
    `drop view if exists ${view}`,
    `drop view if exists ${checked}`,
    `create view ${view} as
select ${columns.map((name) => `m.${name} as ${name}`).join(", ")},
  -- of the last delivery
  case
    when m.content_changed then 'conflict'
    when m.deliveries = 1 then 'enqueued'
    when ${statusOf} = ${status.done} then 'done'
    when ${statusOf} = ${status.dead} then 'dead'
    else 'duplicate'
  end as outcome
${messages(n)}`,
    `create view ${checked} as
select ${columns.join(", ")}, ${before.map((name) => `0 as ${name}`).join(", ")}
from ${n.message}`,
    trigger(
      n.object("_CheckReceive"),
      view,
      `${checks(n)}
  insert into ${checked} (${columns.join(", ")}, ${before.join(", ")})
  select ${columns.map((name) => `i.${name}`).join(", ")}, m.seq,
    coalesce(s.status in (${status.seen}, ${status.processing}), 0), ${clock}
  from (select ${columns.map((name) => `${stored(name)} as ${name}`).join(", ")}) i
  left join ${n.message} m on m.source = i.source and m.message_id = i.message_id
  left join ${n.state} s on s.seq = m.seq;`,
    ),
    trigger(
      n.object("_AddReceived"),
      checked,
      `update ${n.state}
  set status = ${status.ready}, attempt = 0, crashes = 0, died_at = null, visible_at = coalesce(new.due_at, new.now), reclaimable_at = null,
    owner = null, locked_until = null, expires_at = new.expires_at, keyed = iif(new.partition_key is null, null, 1)
  where seq = new.seq and new.enqueued;
  insert into ${n.message} (${columns.join(", ")}, first_seen_at, last_seen_at)
  values (${columns.map((name) => `new.${name}`).join(", ")}, new.now, new.now)
  on conflict (source, message_id) do update
  set ${contents.map((name) => `${name} = iif(new.enqueued, ${newest(name)}, ${n.message}.${name})`).join(",\n    ")},
    partition_key = iif(new.enqueued, new.partition_key, ${n.message}.partition_key),
    last_seen_at = new.now,
    deliveries = ${n.message}.deliveries + 1,
    content_changed = ${isOtherHash(`${n.message}.hash`, "new.hash")};
  insert into ${n.state} (seq, status, visible_at, expires_at, keyed)
  select m.seq, ${status.ready}, coalesce(m.due_at, m.first_seen_at), m.expires_at, iif(m.partition_key is null, null, 1)
  from ${m} and new.seq is null;
  ${joinPartition(n, `${m} and (new.seq is null or new.enqueued)`)}`,
    ),
  ];
}

const trigger = (name: string, view: string, body: string): string => `create trigger ${name}
instead of insert on ${view}
begin
  ${body}
end`;

/** The message that is to be handled joins its partition queue, unless it has a position. All but the heads are blocked. */
const joinPartition = (
  n: QueueNames,
  m: string,
): string => `insert into ${partitionQueue(n)} (partition_key, seq)
  select m.partition_key, m.seq
  from ${m} and m.partition_key is not null
    and exists (select 1 from ${n.state} s where s.seq = m.seq and s.status in (${status.ready}, ${status.blocked}))
  on conflict (seq) do nothing;
  update ${n.state}
  set status = ${status.blocked}
  where status = ${status.ready} and keyed and seq = (select m.seq from ${m}) and exists (
    select 1 from ${partitionQueue(n)} q
    join ${partitionQueue(n)} before on before.partition_key = q.partition_key and before.position < q.position
    where q.seq = ${n.state}.seq
  );`;

/** Refuses what TypeScript's enqueue and receive refuse, and values of other types, which the table would store as other values. */
function checks(n: QueueNames): string {
  const isBad = (name: string) =>
    `typeof(new.${name}) <> 'text' or new.${name} = '' or length(new.${name}) > ${maxNameLength} or substr(new.${name}, -1) = ' ' or instr(new.${name}, char(0))`;
  const isBadIfGiven = (name: string) => `new.${name} is not null and (${isBad(name)})`;
  const isNoGuid = (name: string) =>
    `new.${name} is not null and (new.${name} not glob '????????-????-????-????-????????????' or replace(new.${name}, '-', '') glob '*[^0-9a-fA-F]*')`;
  const bad: readonly (readonly [condition: string, message: string])[] = [
    ...plainColumns.names[n.kind].map((name) => [isBad(name), refusals.name(name)] as const),
    ...plainColumns.keys[n.kind].map((name) => [isBadIfGiven(name), refusals.name(name)] as const),
    [`new.correlation_id <> '' and (${isBad("correlation_id")})`, refusals.name("correlation_id")],
    ["typeof(new.payload) <> 'text'", refusals.payload],
    ...times.map(
      (name) =>
        [
          `new.${name} is not null and coalesce(${instant(`new.${name}`)} not between 0 and ${latest}, 1)`,
          refusals.time(name),
        ] as const,
    ),
    ...(n.kind === "outbox"
      ? ["id", "message_id"].map((name) => [isNoGuid(name), refusals.guid(name)] as const)
      : [[isBadHash, refusals.hash] as const]),
    ["new.headers is not null and not json_valid(new.headers)", refusals.headers],
    ["json_type(new.headers) <> 'object'", refusals.headers],
    [`exists (select 1 from json_each(new.headers) where type <> 'text')`, refusals.headers],
  ];
  return `select case
${bad.map(([condition, message]) => `    when ${condition} then raise(abort, ${literal(message)})`).join("\n")}
  end;`;
}

const colon = "instr(new.hash, ':')";
const isBadHash = [
  "typeof(new.hash) not in ('null', 'text')",
  "instr(new.hash, char(0))",
  `substr(new.hash, ${colon} + 1) glob '*[^0-9a-fA-F]*'`,
  `(length(new.hash) - ${colon}) % 2`,
  `${colon} and (${colon} = length(new.hash) or ${colon} not between 2 and 33)`,
  `substr(new.hash, 1, ${colon} - 1) glob '*[^0-9a-zA-Z_-]*'`,
  "new.hash glob '[_-]*'",
].join(" or ");

const latest = Date.UTC(9998, 0, 1);
