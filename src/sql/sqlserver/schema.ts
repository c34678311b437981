import { type LedgerStatements, type Migration, status } from "../dialect.js";
import { statement } from "../driver.js";
import type { QueueNames } from "../names.js";
import { type ShownParts, sentQuery, shownPhase, shownStatus } from "../views.js";
import { appliesTo, createControls } from "./controls.js";
import {
  afterFunction,
  archiveTable,
  attemptsTable,
  binary,
  controlsTable,
  doneTable,
  keyDefinition,
  quote,
  unhandledTable,
  unicodeLiteral,
} from "./expressions.js";
import { archiveRows, attemptRows, createOperations, doneRows } from "./history.js";
import { createKeys } from "./keys.js";
import { partitionChangesTable, partitionQueueTable, partitionTables } from "./partitions.js";
import { indented, rowFunctions } from "./procedure.js";
import { procedures } from "./queue.js";
import { createUnhandled } from "./unhandled.js";

export const migrations: Readonly<Record<QueueNames["kind"], readonly Migration[]>> = {
  inbox: [{ number: 1, name: "inbox", up: tables }],
  outbox: [{ number: 1, name: "outbox", up: tables }],
};

/** Views, functions and procedures are replaced, not dropped, so that grants on them stay. */
export const routines = (n: QueueNames): readonly string[] => [
  messagesView(n),
  afterFunction(n),
  ...rowFunctions(n),
  ...procedures(n).map(({ text }) => text),
];

/** What only one of the queues has comes first: the script for sqlcmd has the rest once. */
function tables(n: QueueNames): readonly string[] {
  return [
    messageTable(n),
    ...(n.kind === "inbox" ? createKeys(n) : [naturalKeyIndex(n)]),
    archiveRows(n),
    stateTable(n),
    ...stateIndexes(n),
    ...doneRows(n),
    ...partitionTables(n),
    attemptRows(n),
    correlationIndex(n),
    createControls(n),
    createUnhandled(n),
    ...withoutEscalation(n),
    ...errorsOutOfRow(n),
  ];
}

/** Clustered on the narrow number: an inbox's natural key has 1,020 bytes, and a clustered key may have at most 900. */
const messageTable = (n: QueueNames) => `create table ${n.message} (
  seq bigint identity(1, 1) not null,
  ${keyDefinition(n)},
  topic nvarchar(255) ${binary} not null,
  -- of the event; null where it is the topic
  type nvarchar(255) ${binary} null,
  partition_key nvarchar(255) ${binary} null,
  payload nvarchar(max) not null,
  correlation_id nvarchar(255) ${binary} null,
  headers nvarchar(max) null,
  due_at datetime2(3) null,
  expires_at datetime2(3) null,
  ${
    n.kind === "inbox"
      ? `-- an algorithm and hexadecimal digits, as sha256:9f86d081, or only digits where no algorithm was given
  hash varchar(max) ${binary} null,
  first_seen_at datetime2(3) not null,
  last_seen_at datetime2(3) not null,
  deliveries int not null constraint ${n.bare("_Deliveries")} default 1,
  -- the hash of the last delivery differs from the one before it, by the same algorithm
  content_changed bit not null constraint ${n.bare("_ContentChanged")} default 0,
  constraint ${n.bare("Messages_PK")} primary key clustered (seq),
  constraint ${n.bare("_Key")} unique nonclustered (source, message_id)`
      : `created_at datetime2(3) not null,
  natural_key nvarchar(255) ${binary} null,
  constraint ${n.bare("Messages_PK")} primary key clustered (seq),
  constraint ${n.bare("_Key")} unique nonclustered (id)`
  }
)`;

/**
 * The row that a claim rewrites and an ack deletes: only unfinished messages have one. It is narrow, so that they write little
 * and many rows share a page.
 */
const stateTable = (n: QueueNames) => `create table ${n.state} (
  seq bigint not null,
  visible_at datetime2(3) not null,
  -- of a leased row: the end of the lease and the back-off after it; nobody else may claim it until then
  reclaimable_at datetime2(3) null,
  locked_until datetime2(3) null,
  expires_at datetime2(3) null,
  owner uniqueidentifier null,
  attempt int not null constraint ${n.bare("State_Attempt")} default 0,
  status tinyint not null,
  crashes int not null constraint ${n.bare("State_Crashes")} default 0,
  -- 1 for a message with a partition key, else null
  keyed bit null,
  last_attempt_at datetime2(3) null,
  -- of a dead message
  died_at datetime2(3) null,
  -- the same for errors that differ in ids and numbers only
  error_group varchar(16) ${binary} null,
  last_error nvarchar(max) null,
  -- of a message that was claimed after a crash: since when it was claimable
  due_since datetime2(3) null,
  constraint ${n.bare("State_PK")} primary key clustered (seq)
)`;

/** A claim changes no column of them, so its update touches no index. */
const stateIndexes = (n: QueueNames) => [
  `create index ${n.bare("_Ready")} on ${n.state} (visible_at, seq) where status = ${status.ready}`,
  `create index ${n.bare("_DeadKeyed")} on ${n.state} (seq) where status = ${status.dead} and keyed = 1`,
  `create index ${n.bare("_Dead")} on ${n.state} (seq) include (expires_at, locked_until, error_group, died_at, keyed) where status = ${status.dead}`,
];

/** Only messages that have a correlation id pay for it. See docs/decisions/0021. */
const correlationIndex = (n: QueueNames) =>
  `create index ${n.bare("_Correlation")} on ${n.message} (correlation_id, seq) where correlation_id is not null`;

/**
 * Only messages that have a natural key pay for it. See docs/decisions/0032. It has the id that an enqueue looks for, so that the enqueue
 * does not hold an entry here while it waits for a message that a purge deletes.
 */
const naturalKeyIndex = (n: QueueNames) =>
  `create unique index ${n.bare("_NaturalKey")} on ${n.message} (topic, natural_key) include (id) where natural_key is not null`;

/** A statement of many rows must not lock the whole table: every other call would wait for it. */
const withoutEscalation = (n: QueueNames) =>
  [
    ...[n.message, n.state, doneTable(n), partitionQueueTable(n), partitionChangesTable(n)],
    ...[attemptsTable(n), archiveTable(n), controlsTable(n), unhandledTable(n)],
  ].map((table) => `alter table ${table} set (lock_escalation = disable)`);

/** The text of an error would widen the rows that claims and settlements rewrite: few messages have one. */
const errorsOutOfRow = (n: QueueNames) =>
  [n.state, doneTable(n)].map(
    (table) => `exec sp_tableoption ${unicodeLiteral(table)}, 'large value types out of row', 1`,
  );

const shown = (n: QueueNames): ShownParts => ({
  isDone: "s.seq is null",
  isPaused: `exists (select 1 from ${controlsTable(n)} c where c.paused = 1 and ${appliesTo(n.kind === "inbox")})`,
  resolution: "d.resolution",
});

/** Every message with its state or, when it is done, with its done row. */
const messages = (n: QueueNames) => `from ${n.message} m
left join ${n.state} s on s.seq = m.seq
left join ${doneTable(n)} d on d.seq = m.seq`;

const inboxView = (n: QueueNames) => `create or alter view ${n.view} as
select
  m.source as Source, m.message_id as MessageId, m.topic as Topic, m.payload as Payload,
  convert(varbinary(max), substring(m.hash, charindex(':', m.hash) + 1, datalength(m.hash)), 2) as Hash,
  m.first_seen_at as FirstSeenUtc, m.last_seen_at as LastSeenUtc,
  ${shownStatus(n, shown(n))} as Status,
  s.locked_until as LockedUntil, s.owner as OwnerToken, coalesce(s.attempt, d.attempt) as Attempt,
  coalesce(s.last_error, d.last_error) as LastError,
  coalesce(s.reclaimable_at, s.visible_at, d.processed_at) as NextAttemptAt, m.due_at as DueTimeUtc,
  ${shownPhase(n, shown(n))} as Phase,
  case when charindex(':', m.hash) > 0 then left(m.hash, charindex(':', m.hash) - 1) end as HashAlgorithm,
  case when s.seq is null then m.expires_at else s.expires_at end as ExpiresAt,
  m.correlation_id as CorrelationId, d.processed_at as ProcessedAt, m.deliveries as Deliveries,
  m.partition_key as PartitionKey, coalesce(m.type, m.topic) as Type, coalesce(d.processed_at, s.last_attempt_at) as LastAttemptAt
${messages(n)}`;

/** The specification's outbox has the offset of most of its times. */
const withOffset = (time: string) => `cast(${time} as datetimeoffset(3))`;

const outboxView = (n: QueueNames) => `create or alter view ${n.view} as
select
  m.id as Id, m.topic as Topic, m.payload as Payload, ${withOffset("m.created_at")} as CreatedAt,
  cast(${shownStatus(n, shown(n))} as tinyint) as Status,
  s.locked_until as LockedUntil, s.owner as OwnerToken,
  cast(case when s.seq is null then 1 else 0 end as bit) as IsProcessed,
  ${withOffset("d.processed_at")} as ProcessedAt, d.processed_by as ProcessedBy,
  coalesce(s.attempt, d.attempt) as RetryCount, coalesce(s.last_error, d.last_error) as LastError,
  ${withOffset("coalesce(s.reclaimable_at, s.visible_at, d.processed_at)")} as NextAttemptAt,
  m.message_id as MessageId, m.correlation_id as CorrelationId, ${withOffset("m.due_at")} as DueTimeUtc,
  ${shownPhase(n, shown(n))} as Phase,
  case when s.seq is null then m.expires_at else s.expires_at end as ExpiresAt, m.partition_key as PartitionKey,
  coalesce(m.type, m.topic) as Type,
  coalesce(d.processed_at, s.last_attempt_at) as LastAttemptAt, m.headers as Headers, m.natural_key as NaturalKey
${messages(n)}`;

const messagesView = (n: QueueNames): string => (n.kind === "inbox" ? inboxView(n) : outboxView(n));

export function sentView(n: QueueNames): readonly string[] {
  const query = sentQuery({
    from: n.view,
    destination: (topic) => `left(${topic}, charindex(N'/', ${topic}) - 1)`,
    endpoint: (topic) => `substring(${topic}, charindex(N'/', ${topic}) + 1, 255)`,
    header: (headers, name) => `json_value(${headers}, '$."${name}"')`,
    now: "sysutcdatetime()",
  });
  return [`create or alter view ${n.object("Sent")} as\n${query}`];
}

const ledgerTable = (schema: string) => `${quote(schema)}.${quote("oncebox_migrations")}`;

export const ledger: LedgerStatements = {
  prepare: (schema) => [
    // Filtered indexes, and procedures that write to tables with such indexes, require these settings. sqlcmd starts
    // without some of them.
    `set ansi_nulls, ansi_padding, ansi_warnings, arithabort, concat_null_yields_null, quoted_identifier on;
set numeric_roundabort off;
set xact_abort on`,
    `if schema_id(${unicodeLiteral(schema)}) is null
  exec(${unicodeLiteral(`create schema ${quote(schema)}`)})`,
    `if object_id(${unicodeLiteral(ledgerTable(schema))}, N'U') is null
  create table ${ledgerTable(schema)} (
    queue nvarchar(100) ${binary} not null,
    number int not null,
    name nvarchar(100) not null,
    applied_at datetime2(3) not null constraint ${quote("oncebox_migrations_AppliedAt")} default sysutcdatetime(),
    constraint ${quote("oncebox_migrations_PK")} primary key clustered (queue, number)
  )`,
    createOperations(schema),
  ],
  applied: (schema) =>
    statement(
      "migrations applied",
      `select number as number from ${ledgerTable(schema)} where queue = @queue`,
    ),
  record: (schema, { queue, number, name }) =>
    `insert into ${ledgerTable(schema)} (queue, number, name) values (${unicodeLiteral(queue)}, ${number}, ${unicodeLiteral(name)})`,
  // XACT_ABORT is on: an error rolls the whole migration back, and the script can be run again.
  once: (schema, { queue, number }, batches) => `if not exists (
  select 1 from ${ledgerTable(schema)} where queue = ${unicodeLiteral(queue)} and number = ${number}
)
begin
  begin transaction;

${indented(batches.map((batch) => `${batch};`).join("\n"))}

  commit transaction;
end`,
};
