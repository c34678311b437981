import type { LedgerStatements, Migration } from "../dialect.js";
import { status } from "../dialect.js";
import { statement } from "../driver.js";
import { literal } from "../literal.js";
import { bornAt, type QueueNames } from "../names.js";
import { unclaimable } from "./expressions.js";
import { cursorTable, inSchema, leaseTable, lineTable } from "./names.js";

/** Narrow, so that some sixty rows share a page: a page is what SQLite writes for a claim or an ack. */
const stateTable = (n: QueueNames) => `create table ${n.state} (
  seq integer primary key,
  status integer not null,
  attempt integer not null default 0,
  visible_at integer not null,
  locked_until integer,
  owner text,
  crashes integer not null default 0,
  expires_at integer,
  processed_at integer,
  processed_by text,
  last_error text
) strict`;

/** Each filtered to the few rows its reader wants, so that months of Done rows cost nothing. */
const stateIndexes = (n: QueueNames) => [
  `create index ${n.bare("Ready")} on ${n.state} (visible_at, seq) where status = ${status.ready}`,
  `create index ${n.bare("Held")} on ${n.state} (visible_at, seq) where status = ${status.held}`,
  `create index ${n.bare("Expiry")} on ${n.state} (expires_at) where expires_at is not null and status in (${status.ready}, ${status.held}, ${status.blocked})`,
];

export const isFresh = (n: QueueNames, seq: string) =>
  `not exists (select 1 from ${n.state} where seq = ${seq})`;

/** Fresh, and not packed into a lease either: those are not behind the cursor. */
export const isUntouched = (n: QueueNames, seq: string) =>
  `${seq} > (select seq from ${cursorTable(n)}) and ${isFresh(n, seq)}`;

const createCursor = (n: QueueNames) => [
  `create table ${cursorTable(n)} (
  id integer primary key check (id = 1),
  seq integer not null,
  last_deleted integer not null
) strict`,
  `insert into ${cursorTable(n)} (id, seq, last_deleted) values (1, 0, 0)`,
];

const createLeases = (n: QueueNames) => `create table ${leaseTable(n)} (
  id integer primary key,
  owner text not null,
  locked_until integer not null,
  visible_at integer not null,
  seqs text not null
) strict`;

/** The state rows that leases stand for. */
export const packed = (n: QueueNames) => `(
  select value as seq, ${status.held} as status, 0 as attempt, visible_at, locked_until, owner, 0 as crashes,
    null as expires_at, null as processed_at, null as processed_by, null as last_error
  from ${leaseTable(n)}, json_each(seqs)
)`;

/**
 * Every message `m` with its state `s`, whichever way it has one, as the rows of `select`. Joined to both kinds of
 * state at once, SQLite would read all of them for a single message.
 */
export const withState = (n: QueueNames, select: string, where = "true") => `${select}
from ${n.message} m
left join ${n.state} s on s.seq = m.seq
where ${where} and (s.seq is not null or m.seq > (select seq from ${cursorTable(n)}))
union all
${select}
from ${packed(n)} s
join ${n.message} m on m.seq = s.seq
where ${where}`;

const createLine = (n: QueueNames) => [
  `create table ${lineTable(n)} (
  place integer primary key,
  partition_key text not null,
  seq integer not null unique
) strict`,
  `create index ${n.bare("Turns")} on ${lineTable(n)} (partition_key, place)`,
  `create trigger ${n.object("Left")}
after delete on ${lineTable(n)}
begin
  update ${n.state}
  set status = ${status.ready}
  where status = ${status.blocked} and seq = (
    select seq from ${lineTable(n)} where partition_key = old.partition_key order by place limit 1
  );
end`,
];

/** Of a row of the line, by its number: another stands before it. */
export const isBehind = (n: QueueNames, seq: string) => `exists (
    select 1 from ${lineTable(n)} l
    join ${lineTable(n)} before on before.partition_key = l.partition_key and before.place < l.place
    where l.seq = ${seq}
  )`;

/** Whatever is not simply due at once gets its state row with the message: one statement, one commit. */
const insertTrigger = (n: QueueNames) => `create trigger ${n.object("Placed")}
after insert on ${n.message}
when new.topic = '' or new.due_at is not null or new.expires_at is not null or new.partition_key is not null
begin
  insert into ${lineTable(n)} (partition_key, seq)
  select new.partition_key, new.seq where new.partition_key is not null;
  insert into ${n.state} (seq, status, visible_at, expires_at)
  values (
    new.seq,
    case
      when new.topic = '' then ${status.seen}
      when new.partition_key is not null and ${isBehind(n, "new.seq")} then ${status.blocked}
      else ${status.ready}
    end,
    coalesce(new.due_at, new.${bornAt(n)}),
    new.expires_at
  );
end`;

/** Gives messages of leases the state rows that these stand for. */
export const unpack = (n: QueueNames, which = "true") => [
  `insert into ${n.state} (seq, status, visible_at, locked_until, owner)
select j.value, ${status.held}, visible_at, locked_until, owner
from ${leaseTable(n)}, json_each(seqs) j
where ${which}`,
  `delete from ${leaseTable(n)} where ${which}`,
];

/**
 * Deleted by hand, a message without a state row may be in a lease, and a lease must not name what is not there. Its own
 * state row goes with it, by the trigger that follows.
 */
const unleaseTrigger = (n: QueueNames) => `create trigger ${n.object("Unleased")}
before delete on ${n.message}
when ${isFresh(n, "old.seq")}
begin
${unpack(n, "old.seq in (select value from json_each(seqs))").join(";\n")};
end`;

const deleteTrigger = (n: QueueNames) => `create trigger ${n.object("Forgotten")}
after delete on ${n.message}
begin
  delete from ${n.state} where seq = old.seq;
  delete from ${lineTable(n)} where old.partition_key is not null and seq = old.seq;
  update ${cursorTable(n)}
  set last_deleted = old.seq
  where last_deleted < old.seq and not exists (select 1 from ${n.message} where seq > old.seq);
end`;

/** Another delivery of a known message: Seen becomes claimable, an unleased one takes the new times. */
const redeliveryTrigger = (n: QueueNames) => `create trigger ${n.object("Redelivered")}
after update of topic on ${n.message}
when new.topic <> ''
begin
  insert into ${n.state} (seq, status, visible_at, expires_at)
  select new.seq, ${status.ready}, coalesce(new.due_at, new.first_seen_at), new.expires_at
  where (new.due_at is not null or new.expires_at is not null) and ${isUntouched(n, "new.seq")};
  update ${n.state}
  set visible_at = case when attempt = 0 then coalesce(new.due_at, new.first_seen_at) else max(visible_at, coalesce(new.due_at, 0)) end,
    -- one that a replay took away does not come back with the same delivery
    expires_at = case when old.expires_at is new.expires_at then expires_at else new.expires_at end
  where seq = new.seq and status in (${status.ready}, ${status.blocked})
    and (old.due_at is not new.due_at or old.expires_at is not new.expires_at);
  update ${n.state}
  set status = ${status.ready}, attempt = 0, crashes = 0, visible_at = coalesce(new.due_at, new.last_seen_at), expires_at = new.expires_at
  where seq = new.seq and ${unclaimable};
  insert into ${lineTable(n)} (partition_key, seq)
  select new.partition_key, new.seq
  where new.partition_key is not null
    and exists (select 1 from ${n.state} where seq = new.seq and status = ${status.ready})
  on conflict (seq) do nothing;
  update ${n.state}
  set status = ${status.blocked}
  where new.partition_key is not null and seq = new.seq and status = ${status.ready} and ${isBehind(n, "new.seq")};
end`;

export const migrations: Readonly<Record<QueueNames["kind"], readonly Migration[]>> = {
  inbox: [
    {
      number: 1,
      name: "inbox",
      up: (n) => [
        // What claims and counts look at stands before the payload, which may fill pages of its own.
        `create table ${n.message} (
  seq integer primary key,
  source text not null,
  message_id text not null,
  topic text not null,
  first_seen_at integer not null,
  last_seen_at integer not null,
  deliveries integer not null default 1,
  -- the last delivery brought another hash than the one before it
  content_changed integer not null default 0,
  due_at integer,
  expires_at integer,
  hash blob,
  correlation_id text,
  headers text,
  partition_key text,
  payload text not null,
  unique (source, message_id)
) strict`,
        stateTable(n),
        ...stateIndexes(n),
        ...createCursor(n),
        createLeases(n),
        ...createLine(n),
        insertTrigger(n),
        redeliveryTrigger(n),
        unleaseTrigger(n),
        deleteTrigger(n),
      ],
    },
  ],
  outbox: [
    {
      number: 1,
      name: "outbox",
      up: (n) => [
        `create table ${n.message} (
  seq integer primary key,
  id text not null unique,
  message_id text not null,
  topic text not null,
  created_at integer not null,
  due_at integer,
  expires_at integer,
  correlation_id text,
  headers text,
  partition_key text,
  payload text not null
) strict`,
        stateTable(n),
        ...stateIndexes(n),
        ...createCursor(n),
        createLeases(n),
        ...createLine(n),
        insertTrigger(n),
        unleaseTrigger(n),
        deleteTrigger(n),
      ],
    },
  ],
};

/** Of a message `m` and its state `s`, which a fresh one does not have. */
export const stateOf = {
  status: `coalesce(s.status, ${status.ready})`,
  attempt: "coalesce(s.attempt, 0)",
  crashes: "coalesce(s.crashes, 0)",
} as const;
export const visibleAt = (n: QueueNames) => `coalesce(s.visible_at, m.${bornAt(n)})`;

const instant = (column: string) => `strftime('%Y-%m-%dT%H:%M:%fZ', ${column} / 1000.0, 'unixepoch')`;

const inboxView = (n: QueueNames) => `create view ${n.view} as
${withState(
  n,
  `select
  m.source as Source,
  m.message_id as MessageId,
  m.topic as Topic,
  m.payload as Payload,
  m.hash as Hash,
  ${instant("m.first_seen_at")} as FirstSeenUtc,
  ${instant("m.last_seen_at")} as LastSeenUtc,
  case ${stateOf.status}
    when ${status.seen} then 'Seen'
    when ${status.done} then 'Done'
    when ${status.dead} then 'Dead'
    else 'Processing'
  end as Status,
  ${instant("s.locked_until")} as LockedUntil,
  s.owner as OwnerToken,
  ${stateOf.attempt} as Attempt,
  s.last_error as LastError,
  ${instant(visibleAt(n))} as NextAttemptAt,
  ${instant("m.due_at")} as DueTimeUtc,
  ${instant("s.expires_at")} as ExpiresAt,
  m.correlation_id as CorrelationId,
  ${instant("s.processed_at")} as ProcessedAt,
  m.deliveries as Deliveries,
  m.partition_key as PartitionKey`,
)}`;

const outboxView = (n: QueueNames) => `create view ${n.view} as
${withState(
  n,
  `select
  m.id as Id,
  m.topic as Topic,
  m.payload as Payload,
  ${instant("m.created_at")} as CreatedAt,
  case
    when s.status = ${status.done} then 2
    when s.status = ${status.dead} then 3
    when s.locked_until is not null then 1
    else 0
  end as Status,
  ${instant("s.locked_until")} as LockedUntil,
  s.owner as OwnerToken,
  ${stateOf.status} = ${status.done} as IsProcessed,
  ${instant("s.processed_at")} as ProcessedAt,
  s.processed_by as ProcessedBy,
  ${stateOf.attempt} as RetryCount,
  s.last_error as LastError,
  ${instant(visibleAt(n))} as NextAttemptAt,
  m.message_id as MessageId,
  m.correlation_id as CorrelationId,
  ${instant("m.due_at")} as DueTimeUtc,
  ${instant("s.expires_at")} as ExpiresAt,
  m.partition_key as PartitionKey`,
)}`;

export const routines = (n: QueueNames): readonly string[] => [
  `drop view if exists ${n.view}`,
  n.kind === "inbox" ? inboxView(n) : outboxView(n),
];

const ledgerTable = (schema: string) => inSchema(schema, "oncebox_migrations");

export const ledger: LedgerStatements = {
  prepare: (schema) => [
    `create table if not exists ${ledgerTable(schema)} (
  queue text not null,
  number integer not null,
  name text not null,
  applied_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  primary key (queue, number)
) strict`,
  ],
  applied: (schema) =>
    statement("migrations applied", `select number from ${ledgerTable(schema)} where queue = :queue`),
  record: (schema, { queue, number, name }) =>
    `insert into ${ledgerTable(schema)} (queue, number, name) values (${literal(queue)}, ${number}, ${literal(name)})`,
};
