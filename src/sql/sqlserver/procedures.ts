import { status } from "../dialect.js";
import { bornAt, lastSeenAt, type QueueNames } from "../names.js";
import { reasons } from "../reasons.js";
import { addMs, asBit, asInt, backoffMs, binary, differs, prepareBackoff, text } from "./expressions.js";
import {
  inboxColumns,
  type JsonColumns,
  keyedInboxColumns,
  keyedOutboxColumns,
  list as listed,
  outboxColumns,
} from "./json-functions.js";
import { arrive, arrivedTable, leave, letLeave, lockEnds } from "./lanes.js";
import { type ParameterName, parameterType, signatures } from "./signatures.js";

export interface Procedure {
  readonly name: string;
  /** Its text, to follow the creation of an empty one where there is none. */
  readonly alter: string;
}

/** XACT_ABORT: an error, a timeout or a cancelled request leaves no half-written or open transaction behind. */
function procedure(
  n: QueueNames,
  suffix: string,
  parameters: readonly ParameterName[],
  body: string,
): Procedure {
  const name = n.object(`_${suffix}`);
  const declared = parameters
    .map((parameter) => `  @${parameter} ${parameterType(n.kind, parameter)}`)
    .join(",\n");
  const clock = parameters.includes("now") ? "  set @now = coalesce(@now, sysutcdatetime());\n" : "";
  return {
    name,
    alter: `alter procedure ${name}${declared === "" ? "" : `\n${declared}`}
as
begin
  set nocount on;
  set xact_abort on;
${clock}
${indented(body)}
end`,
  };
}

const indented = (body: string) => body.replace(/^(?=.)/gm, "  ");

/** One transaction for several writes: the caller's where there is one, which is then the caller's to end. */
const atomically = (body: string) => `declare @outermost bit = ${asInt("@@trancount = 0")};
if @outermost = 1 begin transaction;

${body}

if @outermost = 1 commit transaction;`;

/**
 * READPAST steps over other claimers' rows instead of waiting; UPDLOCK keeps the chosen ones;
 * READCOMMITTEDLOCK makes both work in a database with READ_COMMITTED_SNAPSHOT, where reads would
 * otherwise not lock. The index is named because a plan made while the queue was empty scans the table.
 */
const pickFrom = (n: QueueNames, index: string) =>
  `${n.state} r with (index(${n.bare(index)}), ${skipLocked})`;
const skipLocked = "updlock, readpast, rowlock, readcommittedlock";

/** From the chosen rows to the rows themselves, whatever the statistics say: never by scanning the table. */
const seekEach = "option (loop join, force order)";

const seqs = "openjson(@items) with (seq bigint '$') i";

/**
 * The state table's name within a statement. What is written to has no alias, and is joined by commas:
 * SQL Server takes all forms alike, but Babelfish checks the condition on an old version of a row that
 * is joined by JOIN (and two claimers get it), and loses its way with an alias beside OUTPUT.
 */
const stateOf = (n: QueueNames) => n.bare("State");

/** A row that @owner holds. */
const owned = (s: string) => `${s}.owner = @owner and ${s}.status = ${status.held}`;

const keysOf = (n: QueueNames) => (n.kind === "inbox" ? ["source", "message_id"] : ["id"]);

const leaseColumns = [
  "seq",
  "attempt",
  "expires_at",
  "visible_at",
  "locked_until",
  "owner",
  "crashes",
  "status",
];
const pastColumns = ["last_error", "processed_at", "processed_by"];
const messageColumns = (n: QueueNames) => [
  "topic",
  "payload",
  "partition_key",
  "headers",
  "correlation_id",
  "due_at",
  ...(n.kind === "inbox"
    ? ["source", "message_id", "hash", "first_seen_at", "last_seen_at", "deliveries"]
    : ["id", "message_id", "created_at"]),
];

/** Every column with its name written out: Babelfish folds the others to lower case. */
const columns = (alias: string, list: readonly string[]) =>
  list.map((column) => `${alias}.${column} as ${column}`).join(", ");
const inserted = (list: readonly string[]) => list.map((column) => `inserted.${column}`).join(", ");

const row = (n: QueueNames, lease = "s") =>
  `${columns(lease, leaseColumns).replace("as visible_at", "as next_attempt_at")},
  ${columns("s", pastColumns)},
  ${columns("m", messageColumns(n))}`;

const claimedTable = `declare @claimed table (
  seq bigint not null primary key,
  attempt int not null,
  expires_at datetime2(3) null,
  visible_at datetime2(3) not null,
  locked_until datetime2(3) null,
  owner uniqueidentifier null,
  crashes int not null,
  status tinyint not null
);`;

/** An update of the rows that @items numbers, which answers those it changed. `after`: in the same transaction. */
function settle(n: QueueNames, set: string, condition: string, after?: string): string {
  const update = `update ${n.state}
set ${set}
output inserted.seq, inserted.keyed into @changed (seq, keyed)
from ${seqs}, ${n.state} with (rowlock)
where ${stateOf(n)}.seq = i.seq and ${condition}
${seekEach};`;
  return `declare @changed table (seq bigint not null primary key, keyed bit null);

${after === undefined ? update : atomically(`${update}\n\n${after}`)}

select c.seq as seq from @changed c;`;
}

// A held row whose time has come was lost by its worker: that counts as an attempt, perhaps the last.
const isLost = (s: string) => `${s}.locked_until is not null`;
const isDying = (s: string) =>
  `(${s}.expires_at <= @now or (${isLost(s)} and ${s}.attempt + 1 >= @max_attempts))`;
const prepareLease = `declare @lease_end datetime2(3) = ${addMs("@now", "@lease_ms")};`;

function claim(n: QueueNames): string {
  const s = stateOf(n);
  const lost = isLost(s);
  const dies = isDying(s);
  const attempts = `(${s}.attempt + ${asInt(lost)} + 1)`;
  // The condition is repeated outside, where the row is locked: by then it may be another claimer's.
  const take = (top: string, index: string, from: number) => `update ${n.state}
set status = case when ${dies} then ${status.dead} else ${status.held} end,
  attempt = ${s}.attempt + ${asInt(lost)},
  crashes = ${s}.crashes + ${asInt(lost)},
  owner = case when ${dies} then null else @owner end,
  locked_until = case when ${dies} then null else @lease_end end,
  visible_at = ${addMs("@lease_end", backoffMs(attempts, `${s}.seq`))},
  last_error = case
    when ${s}.expires_at <= @now then ${text(reasons.expired)}
    when ${lost} then ${text(reasons.leaseExpired)}
    else ${s}.last_error
  end
output ${inserted(leaseColumns)}
into @claimed (${leaseColumns.join(", ")})
from (
  select top (${top}) r.seq
  from ${pickFrom(n, index)}
  where r.status = ${from} and r.visible_at <= @now
  order by r.visible_at, r.seq
) p, ${n.state} with (${skipLocked})
where ${s}.seq = p.seq and ${s}.status = ${from} and ${s}.visible_at <= @now
${seekEach};`;
  return `${prepareLease}
${prepareBackoff}
${claimedTable}

if exists (select 1 from ${arrivedTable(n)} a with (readpast, rowlock, readcommittedlock)) exec ${n.object("_Arrive")};

${atomically(`-- one that crashed its worker comes alone
${take("1", "_Held", status.held)}

if not exists (select 1 from @claimed)
${indented(take("@limit", "_Ready", status.ready))}

${letLeave(n, "@claimed", `@blocks = 0 and c.status = ${status.dead}`)}`)}

select ${row(n, "c")},
  case
    when c.status = ${status.held} then 'claimed'
    when c.expires_at <= @now then 'expired'
    else 'exhausted'
  end as verdict
from @claimed c
inner join ${n.state} s on s.seq = c.seq
inner join ${n.message} m on m.seq = c.seq
order by c.seq
${seekEach};`;
}

/** Those rows of `from`, a table with `seq` as `c`, that are `which` are behind others until they have got in line. */
const comeBack = (
  n: QueueNames,
  from: string,
  which: string,
) => `if exists (select 1 from ${from} c where ${which})
begin
  declare @back table (seq bigint not null primary key, partition_key nvarchar(255) ${binary} not null);

  insert into @back (seq, partition_key)
  select c.seq, m.partition_key
  from ${from} c
  inner join ${n.message} m on m.seq = c.seq
  where ${which} and m.partition_key is not null;

${indented(lockEnds(n, "back_keys", "@back"))}

  update ${n.state}
  set status = ${status.behind}, keyed = 1
  from @back b, ${n.state} with (rowlock)
  where ${stateOf(n)}.seq = b.seq;

  insert into ${arrivedTable(n)} (seq, partition_key)
  select b.seq, b.partition_key
  from @back b
  where not exists (select 1 from ${arrivedTable(n)} a where a.seq = b.seq)
  order by b.seq;
end`;

function abandon(n: QueueNames): string {
  const s = stateOf(n);
  return `${prepareBackoff}
declare @changed table (seq bigint not null primary key, status tinyint not null, keyed bit null);

${atomically(`update ${n.state}
set status = case when ${s}.attempt + 1 >= @max_attempts then ${status.dead} else ${status.ready} end,
  attempt = ${s}.attempt + 1,
  crashes = 0,
  owner = null,
  locked_until = null,
  visible_at = ${addMs("@now", `coalesce(i.delay_ms, ${backoffMs(`(${s}.attempt + 1)`, `${s}.seq`)})`)},
  last_error = coalesce(i.error, ${s}.last_error)
output inserted.seq, inserted.status, inserted.keyed into @changed (seq, status, keyed)
from ${n.object("_Abandoned")}(@items) i, ${n.state} with (rowlock)
where ${s}.seq = i.seq and ${owned(s)}
${seekEach};

${letLeave(n, "@changed", `@blocks = 0 and c.keyed = 1 and c.status = ${status.dead}`)}`)}

select c.seq as seq, ${asBit(`c.status = ${status.dead}`)} as dead from @changed c;`;
}

function reap(n: QueueNames): string {
  const s = stateOf(n);
  const lost = isLost(s);
  const dies = isDying(s);
  const over = (t: string) => `${t}.status = ${status.held} and ${t}.locked_until < @now`;
  const stale = (t: string) =>
    `${t}.expires_at <= @now and ${t}.expires_at is not null and ${t}.status in (${status.ready}, ${status.held}, ${status.behind}) and ${t}.locked_until is null`;
  const pick = (from: string, condition: string, order: string) => `select o.seq
    from (
      select top (@limit) r.seq
      from ${from}
      where ${condition}
      order by ${order}
    ) o`;
  return `declare @reaped table (seq bigint not null primary key, status tinyint not null, expires_at datetime2(3) null);

${atomically(`-- visible_at already holds the end of the lease and the back-off after it: whoever finds it first,
-- reaper or claim, comes to the same time
update ${n.state}
set status = case when ${dies} then ${status.dead} else ${status.held} end,
  attempt = ${s}.attempt + ${asInt(lost)},
  crashes = ${s}.crashes + ${asInt(lost)},
  owner = null,
  locked_until = null,
  last_error = case when ${s}.expires_at <= @now then ${text(reasons.expired)} else ${text(reasons.leaseExpired)} end
output inserted.seq, inserted.status, inserted.expires_at into @reaped (seq, status, expires_at)
from (
  select top (@limit) u.seq
  from (
    ${pick(pickFrom(n, "_Held"), over("r"), "r.visible_at, r.seq")}
    union all
    ${pick(`${n.state} r with (${skipLocked})`, stale("r"), "r.expires_at")}
  ) u
) p, ${n.state} with (${skipLocked})
where ${s}.seq = p.seq and ((${over(s)}) or (${stale(s)}))
${seekEach};

${letLeave(n, "@reaped", `@blocks = 0 and c.status = ${status.dead}`)}`)}

select r.seq as seq, ${columns("m", keysOf(n))},
  case
    when r.status <> ${status.dead} then 'reaped'
    when r.expires_at <= @now then 'expired'
    else 'exhausted'
  end as verdict
from @reaped r
inner join ${n.message} m on m.seq = r.seq;`;
}

// Walks the primary key in windows instead of keeping an index of Done rows, which every ack would pay
// for. Done is final, so the window may be read without locks. The message goes first: a redelivery that
// just touched it keeps both.
const purge = (n: QueueNames) => `declare @before datetime2(3) = ${addMs("@now", "-@retention_ms")};
declare @last_seq bigint, @more bit = 0;
declare @scanned table (seq bigint not null primary key, status tinyint not null, processed_at datetime2(3) null);
declare @gone table (seq bigint not null primary key);

insert into @scanned (seq, status, processed_at)
select top (@limit) s.seq, s.status, s.processed_at
from ${n.state} s with (readpast, rowlock, readcommittedlock)
where s.seq > @after_seq
order by s.seq;

if @@rowcount = @limit set @more = 1;

select @last_seq = max(w.seq) from @scanned w;

if not exists (select 1 from ${n.message} m where m.seq = @last_seq and m.${bornAt(n)} < @before) set @more = 0;

${atomically(`delete from ${n.message}
output deleted.seq into @gone (seq)
from @scanned w, ${n.message} with (readpast, rowlock, readcommittedlock)
where ${n.bare("")}.seq = w.seq and w.status = ${status.done} and w.processed_at < @before
  and ${n.bare("")}.${lastSeenAt(n)} < @before
${seekEach};

delete from ${n.state}
from @gone g, ${n.state} with (rowlock)
where ${stateOf(n)}.seq = g.seq
${seekEach};`)}

select count(*) as deleted, @last_seq as last_seq, @more as more from @gone g;`;

const resolve = (n: QueueNames) =>
  n.kind === "inbox"
    ? `select m.seq as seq, m.source as source, m.message_id as message_id
from ${n.object("_Keys")}(@items) k
inner join ${n.message} m on m.source = k.source and m.message_id = k.message_id
${seekEach};`
    : `select m.seq as seq, m.id as id
from openjson(@items) with (id uniqueidentifier) i
inner join ${n.message} m on m.id = i.id
${seekEach};`;

const get = (n: QueueNames) => `select ${row(n)}
from ${n.message} m
inner join ${n.state} s on s.seq = m.seq
where ${n.kind === "inbox" ? "m.source = @source and m.message_id = @message_id" : "m.id = @id"};`;

// Planned anew each time, with the parameters' values in place: a filter on Dead then finds its index.
const list = (n: QueueNames) => `select top (@limit) ${row(n)}
from ${n.state} s
inner join ${n.message} m on m.seq = s.seq
where s.seq > @after_seq
  and (@status is null or s.status in (@status, @status_2, @status_3))
  and (@leased is null or ${asInt("s.locked_until is not null")} = @leased)
  and (@topic is null or m.topic = @topic)
  and (@source is null or ${n.kind === "inbox" ? "m.source = @source" : "1 = 0"})
  and (@error is null
    or charindex(@error ${binary}, s.last_error ${binary}) > 0
    or (datalength(@error) = 0 and s.last_error is not null))
  and (@older_than_ms is null or m.${bornAt(n)} <= ${addMs("@now", "-@older_than_ms")})
  and (@newer_than_ms is null or m.${bornAt(n)} >= ${addMs("@now", "-@newer_than_ms")})
order by s.seq
option (recompile);`;

function stats(n: QueueNames): string {
  const due = `s.visible_at <= @now and s.status in (${status.ready}, ${status.held})`;
  return `select s.status as status, ${asBit("s.locked_until is not null")} as leased, count_big(*) as [count],
  sum(cast(${asInt(due)} as bigint)) as due,
  datediff_big(millisecond, min(case when ${due} then s.visible_at end), @now) as oldest_due_ms
from ${n.state} s
group by s.status, ${asInt("s.locked_until is not null")};`;
}

function queueProcedures(n: QueueNames): readonly Procedure[] {
  const s = stateOf(n);
  const make = (suffix: Exclude<keyof typeof signatures, "GetByKey" | "GetById">, body: string) =>
    procedure(n, suffix, signatures[suffix], body);
  return [
    make("Claim", claim(n)),
    make(
      "Ack",
      settle(
        n,
        `status = ${status.done}, owner = null, locked_until = null, processed_at = @now, processed_by = @processed_by`,
        owned(s),
        letLeave(n, "@changed", "c.keyed = 1"),
      ),
    ),
    make("Abandon", abandon(n)),
    make(
      "Fail",
      settle(
        n,
        `status = ${status.dead}, attempt = ${s}.attempt + 1, owner = null, locked_until = null, last_error = @error`,
        owned(s),
        letLeave(n, "@changed", "@blocks = 0 and c.keyed = 1"),
      ),
    ),
    // One that came back from a crash goes on waiting to be claimed alone.
    make(
      "Release",
      settle(
        n,
        `status = case when ${s}.crashes > 0 then ${status.held} else ${status.ready} end,
  owner = null, locked_until = null, visible_at = @now`,
        owned(s),
      ),
    ),
    make(
      "Renew",
      `${prepareLease}
${prepareBackoff}
${settle(
  n,
  `locked_until = @lease_end,
  visible_at = ${addMs("@lease_end", backoffMs(`(${s}.attempt + 1)`, `${s}.seq`))}`,
  owned(s),
)}`,
    ),
    make("Reap", reap(n)),
    make("Purge", purge(n)),
    make("Resolve", resolve(n)),
    procedure(n, "Get", n.kind === "inbox" ? signatures.GetByKey : signatures.GetById, get(n)),
    make("List", list(n)),
    make("Stats", stats(n)),
    make(
      "Replay",
      settle(
        n,
        `status = case when ${s}.keyed = 1 then ${status.behind} else ${status.ready} end,
  attempt = 0, crashes = 0, visible_at = @now, expires_at = null, processed_at = null`,
        `${s}.status = ${status.dead}`,
        comeBack(n, "@changed", "c.keyed = 1"),
      ),
    ),
    make("Arrive", atomically(arrive(n))),
    make("Leave", atomically(leave(n))),
  ];
}

/** What a message brings beside its key. */
const contents = ["topic", "payload", "hash", "correlation_id", "headers", "due_at", "expires_at"];

/** With the columns' collation, not the database's: two that differ cannot be compared. */
const parametersAsRow = (columns: JsonColumns) => `(
  select 0 as position, ${Object.entries(columns)
    .map(([column, type]) => `@${column}${type.endsWith(binary) ? ` ${binary}` : ""} as ${column}`)
    .join(", ")}
) i`;

/** Where new messages come from: the procedure's own parameters, or a table filled from JSON. */
const scalarInbox = parametersAsRow(inboxColumns);
const jsonTable = (n: QueueNames, columns: JsonColumns, read = "_Incoming") => `declare @incoming table (
  position int not null primary key,
  ${Object.entries(columns)
    .map(([column, type]) => `${column} ${type} null`)
    .join(",\n  ")}
);

insert into @incoming (position, ${listed(columns)})
select i.position, ${listed(columns, "i.")}
from ${n.object(read)}(@items) i;`;

/**
 * Finds and locks what is known, message before state, then writes each at most once. What another
 * call inserts in between ends this one with a duplicate key, and the caller's retry then finds it:
 * a range lock that would prevent it would also make every new key wait for its neighbour.
 */
function receive(n: QueueNames, incoming: string, hasKeys = false): string {
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
  old_status tinyint not null
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

${atomically(`${hasKeys ? `${lockEnds(n, "ends", "@incoming")}\n\n` : ""}insert into @known (seq, source, message_id, old_status)
select m.seq, m.source, m.message_id, s.status
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
  expires_at = a.expires_at
from @arrived a, ${n.state} with (rowlock)
where ${s}.seq = a.seq and ${s}.status in (${status.ready}, ${status.behind})
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

/** With a key it is behind others until it has got in line. */
const waiting = `case when i.partition_key is null then ${status.ready} else ${status.behind} end`;
const keyed = "case when i.partition_key is not null then 1 end";

/** Finds the message that @source and @message_id name, and locks it and its state. */
const findByKey = (n: QueueNames, more = "") => `select @seq = m.seq, @old_status = s.status${more}
from ${n.message} m with (updlock, rowlock)
inner join ${n.state} s with (updlock, rowlock) on s.seq = m.seq
where m.source = @source and m.message_id = @message_id
${seekEach};`;

/** A message of which nothing but the key is known. */
const insertKey = (
  n: QueueNames,
  hash: string,
) => `insert into ${n.message} (source, message_id, topic, payload, hash,
  first_seen_at, last_seen_at, deliveries, content_changed)
output inserted.seq into @added (seq)
values (@source, @message_id, N'', N'', ${hash}, @now, @now, 1, 0);`;

const alreadyProcessed = (
  n: QueueNames,
) => `declare @seq bigint, @old_status tinyint, @content_changed bit = 0;
declare @added table (seq bigint not null primary key);

${atomically(`${findByKey(n, `, @content_changed = ${asInt(differs("m.hash", "@hash"))}`)}

if @seq is not null
begin
  update ${n.message} with (rowlock)
  set hash = case when @old_status = ${status.done} then coalesce(hash, @hash) else coalesce(@hash, hash) end,
    last_seen_at = @now,
    deliveries = deliveries + 1,
    content_changed = @content_changed
  where seq = @seq;
end
else
begin
${indented(insertKey(n, "@hash"))}

  insert into ${n.state} (seq, status, visible_at)
  select a.seq, ${status.seen}, @now
  from @added a;
end`)}

select ${asBit(`@old_status = ${status.done}`)} as processed, @content_changed as content_changed;`;

// By hand, past any lease: Processing only from Seen; Dead never from Done. A message marked
// Processing by hand is its marker's to finish, so it is visible to claims only at the end of time.
const mark = (n: QueueNames) => `declare @seq bigint, @old_status tinyint;
declare @never datetime2(3) = '9999-12-31T00:00:00.000';
declare @processed_at datetime2(3) = case when @status = ${status.done} then @now end;
declare @added table (seq bigint not null primary key);
declare @changed table (seq bigint not null primary key);

${atomically(`${findByKey(n)}

if @seq is not null
begin
  update ${n.message} with (rowlock)
  set last_seen_at = @now
  where seq = @seq;

  update ${n.state} with (rowlock)
  set status = @status,
    owner = null,
    locked_until = null,
    visible_at = @never,
    processed_at = @processed_at,
    last_error = coalesce(@error, last_error)
  output inserted.seq into @changed (seq)
  where seq = @seq
    and ((@status = ${status.held} and status = ${status.seen}) or (@status <> ${status.held} and status <> ${status.done}));
end
else
begin
${indented(insertKey(n, "null"))}

  insert into ${n.state} (seq, status, visible_at, processed_at, last_error)
  output inserted.seq into @changed (seq)
  select a.seq, @status, @never, @processed_at, @error
  from @added a;
end

${letLeave(n, "@changed", `@status = ${status.done} or (@status = ${status.dead} and @blocks = 0)`)}`)}

select c.seq as seq from @changed c;`;

export function inboxProcedures(n: QueueNames): readonly Procedure[] {
  return [
    ...queueProcedures(n),
    procedure(n, "Receive", signatures.Receive, receive(n, scalarInbox)),
    procedure(
      n,
      "ReceiveMany",
      signatures.ReceiveMany,
      `${jsonTable(n, inboxColumns)}\n\n${receive(n, "@incoming i")}`,
    ),
    procedure(
      n,
      "ReceiveKeyed",
      signatures.ReceiveKeyed,
      `${jsonTable(n, keyedInboxColumns, "_IncomingKeyed")}\n\n${receive(n, "@incoming i", true)}`,
    ),
    procedure(n, "AlreadyProcessed", signatures.AlreadyProcessed, alreadyProcessed(n)),
    procedure(n, "Mark", signatures.Mark, mark(n)),
  ];
}

const scalarOutbox = parametersAsRow(outboxColumns);

/** The caller makes the ids, so that an enqueue whose answer was lost can be repeated and adds nothing. */
const enqueue = (n: QueueNames, incoming: string) => `declare @added table (
  seq bigint not null primary key,
  due_at datetime2(3) null,
  expires_at datetime2(3) null
);

${atomically(`insert into ${n.message} (${listed(outboxColumns)}, created_at)
output inserted.seq, inserted.due_at, inserted.expires_at into @added (seq, due_at, expires_at)
select ${listed(outboxColumns, "i.")}, @now
from ${incoming}
where not exists (select 1 from ${n.message} m where m.id = i.id)
order by i.position;

insert into ${n.state} (seq, status, visible_at, expires_at)
select a.seq, ${status.ready}, coalesce(a.due_at, @now), a.expires_at
from @added a;`)}`;

const enqueueKeyed = (n: QueueNames) => `${jsonTable(n, keyedOutboxColumns, "_IncomingKeyed")}
declare @added table (
  seq bigint not null primary key,
  partition_key nvarchar(255) ${binary} null,
  due_at datetime2(3) null,
  expires_at datetime2(3) null
);

${atomically(`${lockEnds(n, "ends", "@incoming")}

insert into ${n.message} (${listed(keyedOutboxColumns)}, created_at)
output inserted.seq, inserted.partition_key, inserted.due_at, inserted.expires_at
into @added (seq, partition_key, due_at, expires_at)
select ${listed(keyedOutboxColumns, "i.")}, @now
from @incoming i
where not exists (select 1 from ${n.message} m where m.id = i.id)
order by i.position;

insert into ${n.state} (seq, status, visible_at, expires_at, keyed)
select i.seq, ${waiting}, coalesce(i.due_at, @now), i.expires_at, ${keyed}
from @added i;

insert into ${arrivedTable(n)} (seq, partition_key)
select a.seq, a.partition_key
from @added a
where a.partition_key is not null
order by a.seq;`)}`;

export function outboxProcedures(n: QueueNames): readonly Procedure[] {
  return [
    ...queueProcedures(n),
    procedure(n, "Enqueue", signatures.Enqueue, enqueue(n, scalarOutbox)),
    procedure(
      n,
      "EnqueueMany",
      signatures.EnqueueMany,
      `${jsonTable(n, outboxColumns)}\n\n${enqueue(n, "@incoming i")}`,
    ),
    procedure(n, "EnqueueKeyed", signatures.EnqueueKeyed, enqueueKeyed(n)),
  ];
}
