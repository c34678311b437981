import { status } from "../dialect.js";
import type { QueueNames } from "../names.js";
import { asBit, asInt, binary, inLines } from "./expressions.js";
import { finish, finishedTable, insertDone } from "./history.js";
import { joinPartition, leavePartition, lockArrivals } from "./partitions.js";
import {
  beginUnlessOpen,
  columns,
  findOrInsert,
  indented,
  isKeyOf,
  lockRow,
  lockTarget,
  messageTable,
  rowByRow,
  stateTable,
} from "./procedure.js";

/**
 * Finds and locks the known messages by their keys, then their states by number, and inserts the others. Then it writes what a delivery changes:
 * three small columns of a known message, its contents only where they differ, its state only where it has to.
 */
export function receive(n: QueueNames): string {
  const m = messageTable(n);
  const s = stateTable(n);
  const newColumns =
    "seq, source, message_id, partition_key, due_at, expires_at, deliveries, content_changed";
  const inserts = [...contents, "partition_key"];
  const differences = contents.map((c) => {
    if (c === "hash") return `(i.hash is not null and (${m}.hash is null or ${m}.hash <> i.hash))`;
    return c.endsWith("_at") ? isOther(`${m}.${c}`, `i.${c}`) : isOtherText(`${m}.${c}`, `i.${c}`);
  });
  const find = `delete from @found;
delete from @known;

insert into @found (seq, position)
select m.seq, i.position
from (select top (1000000) j.position, j.source, j.message_id from @messages j order by j.source, j.message_id) i
inner join ${n.message} m with (${lockRow}) on m.source = i.source and m.message_id = i.message_id
-- always so; it is in no index, so the row itself is locked
where m.deliveries > 0
order by i.source, i.message_id ${rowByRow};

if @@rowcount > 0
  insert into @known (seq, position, old_status, partition_key, due_at, expires_at, first_seen_at)
  select f.seq, i.position, coalesce(s.status, ${status.done}),
    case when s.status = ${status.dead} then m.partition_key else i.partition_key end, -- a revived message keeps its key
    m.due_at, m.expires_at, m.first_seen_at
  from (select top (1000000) j.seq, j.position from @found j order by j.seq) f
  left join ${n.state} s with (${lockRow}) on s.seq = f.seq
  inner join ${n.message} m with (forceseek, readcommittedlock) on m.seq = f.seq
  inner join @messages i on i.position = f.position
  order by f.seq ${rowByRow};`;
  const insert = `insert into ${n.message} (source, message_id, ${inserts.join(", ")}, first_seen_at, last_seen_at, deliveries, content_changed)
output ${columns("inserted", newColumns)} into @received (${newColumns})
select i.source, i.message_id, ${inserts.map((c) => `i.${c}`).join(", ")}, @now, @now, 1, 0
from @messages i
where not exists (select 1 from @known k where k.position = i.position)
order by i.position;`;
  return `${messagesTable(inboxColumns)}
-- The numbers of the places are given in the order in which the rows are locked. Without them nothing would ask for that order, and a
-- join of many rows would lock first what is in memory.
declare @found table (place int identity(1, 1) not null primary key, seq bigint not null, position int not null);
declare @known table (
  place int identity(1, 1) not null, seq bigint not null primary key, position int not null unique, old_status tinyint not null,
  partition_key nvarchar(255) ${binary} null, due_at datetime2(3) null, expires_at datetime2(3) null, first_seen_at datetime2(3) not null
);
declare @received table (
  seq bigint not null primary key, source nvarchar(255) ${binary} not null, message_id nvarchar(255) ${binary} not null,
  partition_key nvarchar(255) ${binary} null, due_at datetime2(3) null, expires_at datetime2(3) null, deliveries int not null, content_changed bit not null
);
declare @enqueued table (seq bigint not null primary key, keyed bit null);
declare @buried table (seq bigint not null primary key, keyed bit null);

${beginUnlessOpen(`${lockArrivals(n)}

${findOrInsert(find, insert)}

${insertStates(n, "@received")}

if exists (select 1 from @known)
begin
  update ${n.message}
  set last_seen_at = @now, deliveries = ${m}.deliveries + 1, content_changed = ${asInt(isOtherHash(`${m}.hash`, "i.hash"))}
  output ${columns("inserted", newColumns)} into @received (${newColumns})
  from @known k, @messages i, ${n.message} with (${lockRow})
  where i.position = k.position and ${m}.seq = k.seq;

  -- messages that were purged between the two statements, on a server that ignores updlock
  delete from @known where seq not in (select a.seq from @received a);

  -- a done message keeps the content that was handled; any other gets the newest, but not from a call without @revive, which
  -- is the plain one of another service: it fills in a message that was only seen, and rewrites none
  update ${n.message}
  set ${contents.map((c) => `${c} = ${c === "hash" ? `coalesce(i.hash, ${m}.hash)` : `i.${c}`}`).join(", ")}
  from @known k, @messages i, ${n.message} with (${lockRow})
  where i.position = k.position and ${m}.seq = k.seq and k.old_status <> ${status.done}
    and (@revive is not null or k.old_status in (${status.seen}, ${status.processing}))
    and (${differences.join("\n      or ")});

  -- a lease stays as it is, and a back-off that has begun is not cut short
  update ${n.state}
  set visible_at = case
      when ${s}.locked_until is not null then ${s}.visible_at
      when ${s}.attempt = 0 then coalesce(i.due_at, k.first_seen_at)
      when i.due_at > ${s}.visible_at then i.due_at
      else ${s}.visible_at
    end,
    reclaimable_at = case when ${s}.locked_until is null and i.due_at > ${s}.reclaimable_at then i.due_at else ${s}.reclaimable_at end,
    -- an expiry that a replay removed is not set again by the same delivery
    expires_at = case when ${isOther("k.expires_at", "i.expires_at")} then i.expires_at else ${s}.expires_at end
  from @known k, @messages i, ${n.state} with (${lockRow})
  where i.position = k.position and ${s}.seq = k.seq and ${s}.status in (${status.ready}, ${status.blocked}) and @revive is not null
    and (${isOther("k.due_at", "i.due_at")} or ${isOther("k.expires_at", "i.expires_at")});

  update ${n.state}
  set status = case when k.partition_key is null then ${status.ready} else ${status.blocked} end,
    keyed = case when k.partition_key is not null then 1 end, attempt = 0, crashes = 0, owner = null, locked_until = null,
    reclaimable_at = null, visible_at = coalesce(i.due_at, @now), expires_at = i.expires_at
  output inserted.seq, inserted.keyed into @enqueued (seq, keyed)
  from @known k, @messages i, ${n.state} with (${lockRow})
  where i.position = k.position and ${s}.seq = k.seq
    and (${s}.status in (${status.seen}, ${status.processing}) or (${s}.status = ${status.dead} and @revive = 1));

  if exists (select 1 from @enqueued w where w.keyed = 1)
    update ${n.message}
    set partition_key = k.partition_key
    from @enqueued w, @known k, ${n.message} with (${lockRow})
    where k.seq = w.seq and w.keyed = 1 and ${m}.seq = w.seq;

  ${joinPartition(n, "@enqueued", "c.keyed = 1").replaceAll("\n", "\n  ")}
end

${bury(n)}`)}

select case
    when a.content_changed = 1 then 'conflict'
    when a.deliveries = 1 or w.seq is not null then 'enqueued'
    when k.old_status = ${status.done} then 'done'
    when k.old_status = ${status.dead} then 'dead'
    else 'duplicate'
  end as outcome,
  a.source as source, a.message_id as message_id, ${asBit("b.seq is not null")} as buried
from @received a
left join @buried b on b.seq = a.seq
left join @enqueued w on w.seq = a.seq
left join @known k on k.seq = a.seq;`;
}

/** Hashes of two algorithms cannot be compared: of one content they differ, too. */
const isOtherHash = (before: string, after: string): string =>
  `(${before} <> ${after} and ${algorithm(before)} = ${algorithm(after)})`;

/** With the colon. Empty for a hash that does not say it. */
const algorithm = (hash: string): string => `left(${hash}, charindex(':', ${hash}))`;

/** The columns that a delivery brings, beside the key. */
const contents = ["topic", "type", "payload", "hash", "correlation_id", "headers", "due_at", "expires_at"];

/** Whether two values that may be null differ. */
const isOther = (before: string, after: string): string =>
  `not exists (select ${before} intersect select ${after})`;

/** The same for texts: byte by byte, whatever the database's collation is, and with the spaces at the end. */
const isOtherText = (before: string, after: string): string =>
  `(${before} ${binary} <> ${after} ${binary} or coalesce(datalength(${before}), -1) <> coalesce(datalength(${after}), -1))`;

/** The states of new messages. One with a partition key is blocked until it is the head of its partition queue. */
export const insertStates = (
  n: QueueNames,
  added: string,
) => `insert into ${n.state} (seq, status, visible_at, expires_at, keyed)
select a.seq, case when a.partition_key is null then ${status.ready} else ${status.blocked} end, coalesce(a.due_at, @now),
  a.expires_at, case when a.partition_key is not null then 1 end
from ${added} a;

${joinPartition(n, added, "c.partition_key is not null")}`;

/** What came as dead is dead at once, unless it is known or done already. */
function bury(n: QueueNames): string {
  const s = stateTable(n);
  return `if exists (select 1 from @messages i where i.error is not null)
begin
  update ${n.state}
  set status = ${status.dead}, owner = null, locked_until = null, reclaimable_at = null,
    last_error = nullif(i.error, N''), error_group = i.error_group, died_at = @now
  output inserted.seq, inserted.keyed into @buried (seq, keyed)
  from @messages i, @received a, ${n.state} with (${lockRow})
  where i.error is not null and a.source = i.source and a.message_id = i.message_id and ${s}.seq = a.seq
    and (a.deliveries = 1 or (a.content_changed = 1 and @revive is not null) or exists (select 1 from @enqueued w where w.seq = a.seq));

  ${leavePartition(n, "@buried", "@blocks = 0 and c.keyed = 1").replaceAll("\n", "\n  ")}
end`;
}

export const alreadyProcessed = (
  n: QueueNames,
) => `declare @seq bigint, @old_status tinyint, @content_changed bit = 0;
declare @added table (seq bigint not null primary key);

${beginUnlessOpen(`${findKey(n, "@hash", `, @content_changed = ${asInt(isOtherHash("m.hash", "@hash"))}`)}

if @seq is not null
  update ${n.message} with (${lockTarget})
  set hash = case when @old_status = ${status.done} then coalesce(hash, @hash) else coalesce(@hash, hash) end,
    last_seen_at = @now, deliveries = deliveries + 1, content_changed = @content_changed
  where seq = @seq;
else
  insert into ${n.state} (seq, status, visible_at)
  select a.seq, ${status.seen}, @now from @added a;`)}

select ${asBit(`@old_status = ${status.done}`)} as processed, @content_changed as content_changed;`;

// Marks a message by hand, whether it is leased or not: Processing only from Seen, Dead never from Done. A message that was
// marked Processing by hand is never claimed: the code that marked it also finishes it.
export const mark = (n: QueueNames) => `declare @seq bigint, @old_status tinyint;
declare @added table (seq bigint not null primary key);
${finishedTable}

${beginUnlessOpen(`${findKey(n, "null")}

if @seq is null
begin
  select @seq = a.seq from @added a;
  insert into ${n.state} (seq, status, visible_at) values (@seq, ${status.seen}, @now);
end
else
  update ${n.message} with (${lockTarget}) set last_seen_at = @now where seq = @seq;

if @status = ${status.done}
begin
${indented(`${finish(n, `${n.state} with (${lockRow})`, `${stateTable(n)}.seq = @seq`)}

${insertDone(n, "coalesce(@error, f.last_error)")}`)}
end
else
  update ${n.state} with (${lockTarget})
  set status = @status, owner = null, locked_until = null, reclaimable_at = null,
    last_error = coalesce(@error, last_error), error_group = case when @error is null then error_group else @error_group end,
    died_at = case when @status = ${status.dead} then @now else died_at end
  output inserted.seq, inserted.attempt, inserted.keyed into @finished (seq, attempt, keyed)
  where seq = @seq and (@status <> ${status.processing} or status = ${status.seen});

${leavePartition(n, "@finished", `c.keyed = 1 and (@status = ${status.done} or (@status = ${status.dead} and @blocks = 0))`)}`)}

select f.seq from @finished f;`;

/** Finds the message that @source and @message_id name, and locks it and then its state. Inserts it when it is unknown. */
const findKey = (n: QueueNames, hash: string, more = "") =>
  findOrInsert(
    `select @seq = m.seq, @old_status = coalesce(s.status, ${status.done})${more}
from ${n.message} m with (${lockRow})
left join ${n.state} s with (${lockRow}) on s.seq = m.seq
where ${isKeyOf(n)};`,
    `if @seq is null
${indented(insertKey(n, hash))}`,
  );

/** Inserts a message of which only the key is known. */
const insertKey = (
  n: QueueNames,
  hash: string,
) => `insert into ${n.message} (source, message_id, topic, payload, hash,
  first_seen_at, last_seen_at, deliveries, content_changed)
output inserted.seq into @added (seq)
values (@source, @message_id, N'', N'', ${hash}, @now, @now, 1, 0);`;

/** Procedures take several messages as one JSON array: the properties of its objects, with the types of the columns. */
type JsonColumns = Readonly<Record<string, string>>;

const nameType = `nvarchar(255) ${binary}`;

const contentColumns: JsonColumns = {
  topic: nameType,
  type: nameType,
  payload: "nvarchar(max)",
  correlation_id: "nvarchar(255)",
  headers: "nvarchar(max)",
  due_at: "datetime2(3)",
  expires_at: "datetime2(3)",
  partition_key: nameType,
};
/** `error` is of a message that is dead at once. */
const inboxColumns: JsonColumns = {
  source: nameType,
  message_id: nameType,
  ...contentColumns,
  hash: `varchar(max) ${binary}`,
  error: "nvarchar(max)",
  error_group: `varchar(16) ${binary}`,
};
export const outboxColumns: JsonColumns = {
  id: "uniqueidentifier",
  message_id: "uniqueidentifier",
  ...contentColumns,
  natural_key: nameType,
};

export const columnList = (columns: JsonColumns, alias = ""): string =>
  Object.keys(columns)
    .map((column) => `${alias}${column}`)
    .join(", ");

const withoutCollation = (type: string) => type.replace(` ${binary}`, "");

/** The objects of @items as a query, each with its position, for an INSERT of the columns into a table that has their collations. */
function selectFromJson(columns: JsonColumns): string {
  const entries = Object.entries(columns);
  const read = entries.map(([column, type]) => `${column} ${withoutCollation(type)}`);
  return `select ${inLines(["cast(a.[key] as int)", ...entries.map(([column]) => `i.${column}`)])}
from openjson(@items) a
cross apply openjson(a.value) with (
  ${inLines(read)}
) i`;
}

/** Declares @messages and fills it: from @items, or with the one message that the parameters are, which spares the JSON. */
export const messagesTable = (columns: JsonColumns) => `declare @messages table (
  ${inLines(["position int not null primary key", ...Object.entries(columns).map(([column, type]) => `${column} ${type} null`)])}
);

if @items is null
  insert into @messages (position, ${columnList(columns)})
  values (0, ${columnList(columns, "@")});
else
  insert into @messages (position, ${columnList(columns)})
${indented(selectFromJson(columns))};`;
