import { type LedgerStatements, type Migration, status } from "../dialect.js";
import { statement } from "../driver.js";
import { literal, type QueueNames } from "../names.js";
import { type ShownParts, sentQuery, shownPhase, shownStatus } from "../views.js";
import { createControls, holdsMessage } from "./controls.js";
import { attemptsTable, doneTable, inSchema, messages, partitionQueue } from "./expressions.js";
import { createArchive, createAttempts, createOperations } from "./history.js";
import { createKeys } from "./keys.js";
import { createPartitionQueue } from "./partitions.js";
import { plainRoutine } from "./plain-routines.js";
import { createUnhandled } from "./unhandled.js";

const instant = (column: string) => `strftime('%Y-%m-%dT%H:%M:%fZ', ${column} / 1000.0, 'unixepoch')`;

const shown = (n: QueueNames): ShownParts => ({
  isDone: "s.seq is null",
  isPaused: holdsMessage(n),
  resolution: "d.resolution",
});

const inboxView = (n: QueueNames) => `create view ${n.view} as
select
  m.source as Source,
  m.message_id as MessageId,
  m.topic as Topic,
  m.payload as Payload,
  substr(m.hash, instr(m.hash, ':') + 1) as Hash,
  ${instant("m.first_seen_at")} as FirstSeenUtc,
  ${instant("m.last_seen_at")} as LastSeenUtc,
  ${shownStatus(n, shown(n))} as Status,
  ${instant("s.locked_until")} as LockedUntil,
  s.owner as OwnerToken,
  coalesce(s.attempt, d.attempt) as Attempt,
  coalesce(s.last_error, d.last_error) as LastError,
  ${instant("coalesce(s.reclaimable_at, s.visible_at, d.processed_at)")} as NextAttemptAt,
  ${instant("m.due_at")} as DueTimeUtc,
  ${shownPhase(n, shown(n))} as Phase,
  iif(instr(m.hash, ':'), substr(m.hash, 1, instr(m.hash, ':') - 1), null) as HashAlgorithm,
  ${instant("iif(s.seq is null, m.expires_at, s.expires_at)")} as ExpiresAt,
  m.correlation_id as CorrelationId,
  ${instant("d.processed_at")} as ProcessedAt,
  m.deliveries as Deliveries,
  m.partition_key as PartitionKey,
  coalesce(m.type, m.topic) as Type,
  ${instant("coalesce(d.processed_at, s.last_attempt_at)")} as LastAttemptAt
${messages(n)}`;

const outboxView = (n: QueueNames) => `create view ${n.view} as
select
  m.id as Id,
  m.topic as Topic,
  m.payload as Payload,
  ${instant("m.created_at")} as CreatedAt,
  ${shownStatus(n, shown(n))} as Status,
  ${instant("s.locked_until")} as LockedUntil,
  s.owner as OwnerToken,
  s.seq is null as IsProcessed,
  ${instant("d.processed_at")} as ProcessedAt,
  d.processed_by as ProcessedBy,
  coalesce(s.attempt, d.attempt) as RetryCount,
  coalesce(s.last_error, d.last_error) as LastError,
  ${instant("coalesce(s.reclaimable_at, s.visible_at, d.processed_at)")} as NextAttemptAt,
  m.message_id as MessageId,
  m.correlation_id as CorrelationId,
  ${instant("m.due_at")} as DueTimeUtc,
  ${shownPhase(n, shown(n))} as Phase,
  ${instant("iif(s.seq is null, m.expires_at, s.expires_at)")} as ExpiresAt,
  m.partition_key as PartitionKey,
  coalesce(m.type, m.topic) as Type,
  ${instant("coalesce(d.processed_at, s.last_attempt_at)")} as LastAttemptAt,
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
  destination: (topic) => `substr(${topic}, 1, instr(${topic}, '/') - 1)`,
  endpoint: (topic) => `substr(${topic}, instr(${topic}, '/') + 1)`,
  header: (headers, name) => `json_extract(${headers}, '$."${name}"')`,
  now: "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')",
})}`,
];

/**
 * One row for each unfinished message, written when the message arrives and deleted when it is done. Narrow, so that some
 * sixty rows share a page: SQLite writes whole pages for a claim or an ack.
 */
const stateTable = (n: QueueNames) => `create table ${n.state} (
  seq integer primary key,
  status integer not null,
  visible_at integer not null,
  -- of a message that was leased: the time from which other workers may take it over
  reclaimable_at integer,
  locked_until integer,
  owner text,
  attempt integer not null default 0,
  crashes integer not null default 0,
  expires_at integer,
  -- 1 for a message with a partition key, else null
  keyed integer,
  -- not of a done message: there it is processed_at
  last_attempt_at integer,
  -- of a dead message
  died_at integer,
  last_error text,
  -- the same for errors that differ in ids and numbers only
  error_group text,
  -- of a message that was claimed after a crash: since when it was claimable
  due_since integer
) strict`;

/** A claim changes no column of either. */
const stateIndexes = (n: QueueNames) => [
  `create index ${n.bare("Ready")} on ${n.state} (visible_at, seq) where status = ${status.ready}`,
  // Covers what a list of error groups reads.
  `create index ${n.bare("Dead")} on ${n.state} (seq, error_group, died_at) where status = ${status.dead}`,
];

/** A message without a state row is done. */
const createDone = (n: QueueNames) => [
  `create table ${doneTable(n)} (
  seq integer primary key,
  processed_at integer not null,
  attempt integer not null,
  processed_by text,
  last_error text${
    n.kind === "inbox"
      ? `,
  -- of a message that an operator has resolved: archived or replaced
  resolution text`
      : ""
  }
) strict`,
  ...(n.kind === "inbox"
    ? [
        `create index ${n.bare("Resolution")} on ${doneTable(n)} (seq, resolution) where resolution is not null`,
      ]
    : []),
];

/** What belongs to a message goes with it. */
const deleteTrigger = (n: QueueNames) => `create trigger ${n.object("RemoveState")}
after delete on ${n.message}
begin
  delete from ${n.state} where seq = old.seq;
  delete from ${doneTable(n)} where seq = old.seq;
  delete from ${attemptsTable(n)} where seq = old.seq;
  delete from ${partitionQueue(n)} where old.partition_key is not null and seq = old.seq;
end`;

/** Beside the messages, the same for both kinds. */
const otherTables = (n: QueueNames): readonly string[] => [
  stateTable(n),
  ...stateIndexes(n),
  ...createDone(n),
  ...createPartitionQueue(n),
  ...createAttempts(n),
  createArchive(n),
  createControls(n),
  createUnhandled(n),
  correlationIndex(n),
  deleteTrigger(n),
];

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
  -- no number is used twice: the archive keeps them
  seq integer primary key autoincrement,
  source text not null,
  message_id text not null,
  topic text not null,
  -- of the event; null where it is the topic
  type text,
  first_seen_at integer not null,
  last_seen_at integer not null,
  deliveries integer not null default 1,
  -- the last delivery brought another hash than the one before it, by the same algorithm
  content_changed integer not null default 0,
  due_at integer,
  expires_at integer,
  -- an algorithm and hexadecimal digits, as sha256:9f86d081, or only digits where no algorithm was given
  hash text,
  correlation_id text,
  headers text,
  partition_key text,
  payload text not null,
  unique (source, message_id)
) strict`,
        ...otherTables(n),
        ...createKeys(n),
      ],
    },
  ],
  outbox: [
    {
      number: 1,
      name: "outbox",
      up: (n) => [
        `create table ${n.message} (
  -- no number is used twice: the archive keeps them
  seq integer primary key autoincrement,
  id text not null unique,
  message_id text not null,
  topic text not null,
  -- of the event; null where it is the topic
  type text,
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
        ...otherTables(n),
      ],
    },
  ],
};

export const routines = (n: QueueNames): readonly string[] => [
  `drop view if exists ${n.view}`,
  messagesView(n),
  ...plainRoutine(n),
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
