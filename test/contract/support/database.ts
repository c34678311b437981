import { omitUndefined } from "../../../src/base/defined.js";
import type { Database } from "../../../src/sql/dialect.js";
import type { SqlExecutor, SqlRow } from "../../../src/sql/driver.js";
import type { QueueNames } from "../../../src/sql/names.js";
import type { TestDatabase } from "../harness.js";

/** Give it to migrate, createInbox and createOutbox. */
export const inSchemaOf = ({ schema }: Pick<TestDatabase, "schema">): { readonly schema?: string } =>
  omitUndefined({ schema });

export const namesOf = (database: TestDatabase, kind: QueueNames["kind"], table: string): QueueNames =>
  database.db.dialect.names(kind, database.schema ?? database.db.dialect.defaults.schema, table);

/** How many rows a table, or a part of it, has. */
export async function rowCount(database: TestDatabase, table: string): Promise<number> {
  const [row] = await database.raw(`select count(*) as n from ${table}`);
  return Number(row?.n);
}

/** The columns that the specification's appendix A gives the inbox, in its order. */
export const inboxColumns = [
  ...[
    "Source",
    "MessageId",
    "Topic",
    "Payload",
    "Hash",
    "FirstSeenUtc",
    "LastSeenUtc",
    "Status",
    "LockedUntil",
  ],
  ...["OwnerToken", "Attempt", "LastError", "NextAttemptAt", "DueTimeUtc"],
];
export const outboxColumns = [
  ...[
    "Id",
    "Topic",
    "Payload",
    "CreatedAt",
    "Status",
    "LockedUntil",
    "OwnerToken",
    "IsProcessed",
    "ProcessedAt",
  ],
  ...["ProcessedBy", "RetryCount", "LastError", "NextAttemptAt", "MessageId", "CorrelationId", "DueTimeUtc"],
];
/** Those that only our views have: of a queue, then of a service's outbox. */
const moreColumns = [
  ...[
    "Phase",
    "HashAlgorithm",
    "ExpiresAt",
    "Deliveries",
    "PartitionKey",
    "Type",
    "LastAttemptAt",
    "Headers",
    "NaturalKey",
  ],
  ...["MessageType", "Destination", "Endpoint", "State", "MaxRetries", "NextRetryAt", "SentAt"],
];
const shownNames = new Map(
  [...inboxColumns, ...outboxColumns, ...moreColumns].map((name) => [name.toLowerCase(), name]),
);

/** Rows of a view under the names that the columns have in the specification. PostgreSQL returns them in lower case. */
export const shownRows = async (
  { raw }: Pick<TestDatabase, "raw">,
  query: string,
): Promise<readonly SqlRow[]> =>
  (await raw(query)).map((row) =>
    Object.fromEntries(
      Object.entries(row).map(([name, value]) => [shownNames.get(name.toLowerCase()) ?? name, value]),
    ),
  );

/** Babelfish stands in for SQL Server: it lacks some of its features and is much slower. */
export async function isBabelfish(database: Pick<TestDatabase, "db" | "raw">): Promise<boolean> {
  if (database.db.dialect.name !== "sqlserver") return false;
  const [row] = await database.raw("select @@version as version");
  return /babelfish/i.test(String(row?.version));
}

/** The database, with every query in one open transaction. */
export const inTransaction = (db: Database, tx: SqlExecutor): Database => ({
  ...db,
  driver: { ...db.driver, query: (statement, params) => tx.query(statement, params) },
});

/** Resolves when a statement that names the table waits for another transaction's lock, or when `work` has ended. */
export async function untilBlocked(
  database: TestDatabase,
  work: Promise<unknown>,
  table: string,
): Promise<void> {
  const waiting =
    database.db.dialect.name === "postgres"
      ? `select count(*) as n from pg_stat_activity where wait_event_type = 'Lock' and query like '%"${table}%'`
      : "select count(*) as n from sys.dm_exec_requests where blocking_session_id > 0";
  let ended = false;
  const end = () => {
    ended = true;
  };
  work.then(end, end);
  for (let polls = 0; polls < 5_000 && !ended; polls++) {
    const [row] = await database.raw(waiting);
    if (Number(row?.n) > 0) return;
  }
}

/** Makes the database refuse rows, as a full disk or a violated constraint would. `rule` starts with a column. */
export async function forbid(
  database: TestDatabase,
  names: QueueNames,
  table: "message" | "state",
  event: "insert" | "update",
  rule: string,
): Promise<void> {
  if (database.db.dialect.name === "sqlite") {
    const refuse = "begin select raise(abort, 'forbidden by the test'); end";
    await database.raw(
      `create trigger ${names.object("Forbidden")} before ${event} on ${names[table]} when not (new.${rule}) ${refuse}`,
    );
  } else {
    await database.raw(`alter table ${names[table]} add check (${rule})`);
  }
}

/** The table of the keys of inbox stores. */
export const keysTable = ({ dialect }: Database, names: QueueNames): string =>
  names.object(dialect.name === "postgres" ? "_keys" : "Keys");
