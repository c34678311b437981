import { type LedgerStatements, type Migration, status } from "../dialect.js";
import { statement } from "../driver.js";
import { createdColumn, literal, type QueueNames } from "../names.js";
import { type ShownStatusParts, sentQuery, shownState, shownStatus } from "../views.js";
import { createControls, holdsMessage } from "./controls.js";
import {
  attemptsTable,
  awaitsDelivery,
  cursorTable,
  hasExpiry,
  inSchema,
  isUnclaimed,
  isWaiting,
  messages,
  partitionQueue,
  stateColumns,
  visibleAt,
} from "./expressions.js";
import { createArchive, createAttempts, createOperations } from "./history.js";
import { createPartitionQueue, isBlocked } from "./partitions.js";

const instant = (column: string) => `strftime('%Y-%m-%dT%H:%M:%fZ', ${column} / 1000.0, 'unixepoch')`;

const shown = (n: QueueNames): ShownStatusParts => ({
  isDone: `s.status = ${status.done}`,
  isPaused: holdsMessage(n),
  endedAs: "s.ended_as",
});

const inboxView = (n: QueueNames) => `create view ${n.view} as
select
  m.source as Source,
  m.message_id as MessageId,
  m.topic as Topic,
  m.payload as Payload,
  m.hash as Hash,
  ${instant("m.first_seen_at")} as FirstSeenUtc,
  ${instant("m.last_seen_at")} as LastSeenUtc,
  ${shownStatus(n, shown(n))} as Status,
  ${shownState(n, shown(n))} as State,
  ${instant("s.locked_until")} as LockedUntil,
  s.owner as OwnerToken,
  ${stateColumns.attempt} as Attempt,
  s.last_error as LastError,
  ${instant(visibleAt(n))} as NextAttemptAt,
  ${instant("m.due_at")} as DueTimeUtc,
  ${instant("s.expires_at")} as ExpiresAt,
  m.correlation_id as CorrelationId,
  ${instant("s.processed_at")} as ProcessedAt,
  m.deliveries as Deliveries,
  m.partition_key as PartitionKey,
  ${instant("coalesce(s.processed_at, s.last_attempt_at)")} as LastAttemptAt
${messages(n)}`;

const outboxView = (n: QueueNames) => `create view ${n.view} as
select
  m.id as Id,
  m.topic as Topic,
  m.payload as Payload,
  ${instant("m.created_at")} as CreatedAt,
  ${shownStatus(n, shown(n))} as Status,
  ${shownState(n, shown(n))} as State,
  ${instant("s.locked_until")} as LockedUntil,
  s.owner as OwnerToken,
  ${stateColumns.status} = ${status.done} as IsProcessed,
  ${instant("s.processed_at")} as ProcessedAt,
  s.processed_by as ProcessedBy,
  ${stateColumns.attempt} as RetryCount,
  s.last_error as LastError,
  ${instant(visibleAt(n))} as NextAttemptAt,
  m.message_id as MessageId,
  m.correlation_id as CorrelationId,
  ${instant("m.due_at")} as DueTimeUtc,
  ${instant("s.expires_at")} as ExpiresAt,
  m.partition_key as PartitionKey,
  ${instant("coalesce(s.processed_at, s.last_attempt_at)")} as LastAttemptAt,
  m.headers as Headers,
  m.natural_key as NaturalKey
${messages(n)}`;

/** The specification's names: SQLite keeps their case and compares them without it, so they need no quotes. */
const messagesView = (n: QueueNames): string => (n.kind === "inbox" ? inboxView(n) : outboxView(n));

export const sentView = (n: QueueNames): readonly string[] => [
  `drop view if exists ${n.object("Sent")}`,
  `create view ${n.object("Sent")} as
${sentQuery({
  from: n.view,
  column: (name) => name,
  destination: (topic) => `substr(${topic}, 1, instr(${topic}, '/') - 1)`,
  endpoint: (topic) => `substr(${topic}, instr(${topic}, '/') + 1)`,
  header: (headers, name) => `json_extract(${headers}, '$."${name}"')`,
  now: "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')",
})}`,
];

/** Narrow, so that some sixty rows share a page: SQLite writes whole pages for a claim or an ack. */
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
  -- not of a done message: there it is processed_at
  last_attempt_at integer,
  -- of a dead message, and of no other
  died_at integer,
  last_error text,
  -- the same for errors that differ in ids and numbers only
  error_group text,
  -- since when it was claimable at its last claim; null when that was of an unclaimed message
  due_since integer,
  -- the control that has parked the message
  parked_by integer,
  -- the limits that have let it pass since it was last claimed, such as ',3,9,'
  passes text${
    n.kind === "inbox"
      ? `,
  -- of a done message that an operator has ended: archived or replaced
  ended_as text`
      : ""
  }
) strict`;

/** Each is filtered to the rows that its reader wants: months of Done rows cost nothing. */
const stateIndexes = (n: QueueNames) => [
  `create index ${n.bare("Ready")} on ${n.state} (visible_at, seq) where status = ${status.ready}`,
  `create index ${n.bare("Held")} on ${n.state} (visible_at, seq) where status = ${status.held}`,
  ...(n.kind === "inbox"
    ? [
        `create index ${n.bare("Leased")} on ${n.state} (visible_at, seq) where status = ${status.leased}`,
        `create index ${n.bare("EndedAs")} on ${n.state} (seq, ended_as) where ended_as is not null`,
      ]
    : []),
  // Covers what a list of error groups reads. An ack changes no column of it, so it costs an ack nothing.
  `create index ${n.bare("Dead")} on ${n.state} (seq, error_group, died_at) where died_at is not null`,
  `create index ${n.bare("Expiry")} on ${n.state} (expires_at) where ${hasExpiry}`,
];

const createCursor = (n: QueueNames) => [
  `create table ${cursorTable(n)} (
  id integer primary key check (id = 1),
  seq integer not null,
  last_deleted integer not null
) strict`,
  `insert into ${cursorTable(n)} (id, seq, last_deleted) values (1, 0, 0)`,
];

/**
 * A message that is not due at once, or has an expiry or a partition key, gets its state row when it arrives. So does a
 * message that is only Seen: its topic is empty, because it was recorded and not enqueued.
 */
const insertTrigger = (n: QueueNames) => `create trigger ${n.object("AddState")}
after insert on ${n.message}
when new.topic = '' or new.due_at is not null or new.expires_at is not null or new.partition_key is not null
begin
  insert into ${partitionQueue(n)} (partition_key, seq)
  select new.partition_key, new.seq where new.partition_key is not null;
  insert into ${n.state} (seq, status, visible_at, expires_at)
  values (
    new.seq,
    case
      when new.topic = '' then ${status.seen}
      when new.partition_key is not null and ${isBlocked(n, "new.seq")} then ${status.blocked}
      else ${status.ready}
    end,
    coalesce(new.due_at, new.${createdColumn(n)}),
    new.expires_at
  );
end`;

/** The state goes with its message, and the message's number is never used again. */
const deleteTrigger = (n: QueueNames) => `create trigger ${n.object("RemoveState")}
after delete on ${n.message}
begin
  delete from ${n.state} where seq = old.seq;
  delete from ${attemptsTable(n)} where seq = old.seq;
  delete from ${partitionQueue(n)} where old.partition_key is not null and seq = old.seq;
  update ${cursorTable(n)}
  set last_deleted = old.seq
  where last_deleted < old.seq and not exists (select 1 from ${n.message} where seq > old.seq);
end`;

/** Another delivery of a known message: a Seen one becomes claimable, one without a lease takes the new times. */
const redeliveryTrigger = (n: QueueNames) => `create trigger ${n.object("ApplyRedelivery")}
after update of topic on ${n.message}
when new.topic <> '' and (
  old.due_at is not new.due_at or old.expires_at is not new.expires_at
  or exists (select 1 from ${n.state} where seq = new.seq and ${awaitsDelivery("new.last_seen_at")})
)
begin
  insert into ${n.state} (seq, status, visible_at, expires_at)
  select new.seq, ${status.ready}, coalesce(new.due_at, new.first_seen_at), new.expires_at
  where (new.due_at is not null or new.expires_at is not null) and ${isUnclaimed(n, "new.seq")};
  update ${n.state}
  set visible_at = case when attempt = 0 then coalesce(new.due_at, new.first_seen_at) else max(visible_at, coalesce(new.due_at, 0)) end,
    -- an expiry that a replay took away stays away when the same delivery comes again
    expires_at = case when old.expires_at is new.expires_at then expires_at else new.expires_at end
  where seq = new.seq and ${isWaiting}
    and (old.due_at is not new.due_at or old.expires_at is not new.expires_at);
  update ${n.state}
  set status = ${status.ready}, attempt = 0, crashes = 0, owner = null, locked_until = null,
    visible_at = coalesce(new.due_at, new.last_seen_at), expires_at = new.expires_at
  where seq = new.seq and ${awaitsDelivery("new.last_seen_at")};
  insert into ${partitionQueue(n)} (partition_key, seq)
  select new.partition_key, new.seq
  where new.partition_key is not null
    and exists (select 1 from ${n.state} where seq = new.seq and status = ${status.ready})
  on conflict (seq) do nothing;
  update ${n.state}
  set status = ${status.blocked}
  where new.partition_key is not null and seq = new.seq and status = ${status.ready} and ${isBlocked(n, "new.seq")};
end`;

/** Only messages that have a correlation id pay for it. See docs/decisions/0021. */
const correlationIndex = (n: QueueNames) =>
  `create index ${n.bare("Correlation")} on ${n.message} (correlation_id) where correlation_id is not null`;

/** Only messages that have a natural key pay for it. See docs/decisions/0032. */
const naturalKeyIndex = (n: QueueNames) =>
  `create unique index ${n.bare("NaturalKey")} on ${n.message} (topic, natural_key) where natural_key is not null`;

export const migrations: Readonly<Record<QueueNames["kind"], readonly Migration[]>> = {
  inbox: [
    {
      number: 1,
      name: "inbox",
      up: (n) => [
        // The columns that claims and counts read come before the payload, which may fill pages of its own.
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
        ...createPartitionQueue(n),
        ...createAttempts(n),
        createArchive(n),
        correlationIndex(n),
        ...createControls(n),
        insertTrigger(n),
        redeliveryTrigger(n),
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
  natural_key text,
  payload text not null
) strict`,
        naturalKeyIndex(n),
        stateTable(n),
        ...stateIndexes(n),
        ...createCursor(n),
        ...createPartitionQueue(n),
        ...createAttempts(n),
        createArchive(n),
        correlationIndex(n),
        ...createControls(n),
        insertTrigger(n),
        deleteTrigger(n),
      ],
    },
  ],
};

export const routines = (n: QueueNames): readonly string[] => [
  `drop view if exists ${n.view}`,
  messagesView(n),
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
    createOperations(schema),
  ],
  applied: (schema) =>
    statement("migrations applied", `select number from ${ledgerTable(schema)} where queue = :queue`),
  record: (schema, { queue, number, name }) =>
    `insert into ${ledgerTable(schema)} (queue, number, name) values (${literal(queue)}, ${number}, ${literal(name)})`,
};
