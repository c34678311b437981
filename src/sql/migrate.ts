import { InvalidArgumentError, InvalidOperationError } from "../errors.js";
import { refuseUnknown } from "../queue/arguments.js";
import type { Database, Dialect, LedgerEntry, Migration } from "./dialect.js";
import { type SqlExecutor, statement } from "./driver.js";
import type { WrongSetting } from "./inspection.js";
import { type QueueNames, queueId, requireIdentifier } from "./names.js";

/** The table that records which migrations were applied. */
const ledgerTable = "oncebox_migrations";

/** The table of what operators have done. */
const operationsTable = "oncebox_operations";

/** What is appended to a queue's name for its tables and its view, in any dialect. */
const suffixes = [
  "",
  "State",
  "Messages",
  "Cursor",
  "PartitionQueue",
  "PartitionChanges",
  "Attempts",
  "Archive",
  "Controls",
  "Unhandled",
  "_state",
  "_messages",
  "_done",
  "_partition_queue",
  "_partition_lock",
  "_pending_arrivals",
  "_attempts",
  "_archive",
  "_controls",
  "_Enqueue",
  "_Enqueuing",
  "_Receive",
  "_Receiving",
  "_unhandled",
];

/**
 * Refuses an outbox called "InboxState", which would collide with the inbox's own table. The names of all dialects are
 * refused on each, so that an application can change its database.
 */
function requireDistinct(queues: readonly QueueNames[]): void {
  const taken = new Map([ledgerTable, operationsTable].map((name) => [name, "oncebox itself"]));
  for (const queue of queues) {
    const own = `${queue.kind} "${queue.table}"`;
    const objects = suffixes.map((suffix) => `${queue.table}${suffix}`);
    const collision = objects.find((name) => taken.has(name.toLowerCase()));
    if (collision !== undefined)
      throw new InvalidArgumentError(
        `migrate: the ${own} needs the name "${collision}", which belongs to ${taken.get(collision.toLowerCase())}. Choose another name: migrate(db, { ${queue.kind}: "…" }).`,
      );
    for (const name of objects) taken.set(name.toLowerCase(), `the ${own}`);
  }
}

/** Runs a part of a queue's migration. When a name is taken, the error says by what and what to do. */
async function withoutCollisions<T>(dialect: Dialect, queue: QueueNames, part: () => Promise<T>): Promise<T> {
  try {
    return await part();
  } catch (error) {
    if (!dialect.isNameTaken(error)) throw error;
    throw new InvalidOperationError(
      `migrate: the ${queue.kind} "${queue.table}" needs a name that another object has (${(error as Error).message}). ${ledgerTable} has no record of that object as a part of this ${queue.kind}. Choose another name, migrate(db, { ${queue.kind}: "…" }), or another schema, or rename the object.`,
      { cause: error },
    );
  }
}

/** Reads the ledger. A table of another application may have its name. */
async function readLedger<T>(dialect: Dialect, schema: string, read: () => Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (error) {
    if (!dialect.isSchemaMissing(error)) throw error;
    throw new InvalidOperationError(
      `migrate: the table "${ledgerTable}"${schema === "" ? "" : ` in the schema "${schema}"`} is not the one that oncebox creates. Rename it, or use another schema: migrate(db, { schema: "…" }).`,
      { cause: error },
    );
  }
}

/** What is migrated: the schema, and the tables of inbox and outbox. */
export interface MigrateOptions {
  readonly schema?: string;
  /** The name of the table; `false` leaves that queue out. */
  readonly inbox?: string | false;
  readonly outbox?: string | false;
}

/** What a migration did. */
export interface MigrateResult {
  /** The migrations that this call applied, such as `inbox 1 inbox`. Empty when the schema was up to date. */
  readonly applied: readonly string[];
  /** Settings of the database that oncebox works with, though less well, and what changes them. */
  readonly warnings: readonly string[];
}

/**
 * Creates or updates the tables, indexes, views and procedures. Any number of processes may
 * call it at once, any number of times. Nothing else in the package changes the schema.
 *
 * @example
 * await migrate(db);
 */
export async function migrate(db: Database, options: MigrateOptions = {}): Promise<MigrateResult> {
  const queues = chosenQueues(db.dialect, options);
  const schema = queues[0]?.schema ?? db.dialect.defaults.schema;
  const warnings = await checkSettings(db);
  return db.exclusively(schema, async (tx) => {
    await runBatches(tx, db.dialect.ledger.prepare(schema));
    const applied: string[] = [];
    for (const queue of queues) applied.push(...(await migrateQueue(db.dialect, tx, queue)));
    return { applied, warnings };
  });
}

/** Refuses a database that oncebox cannot work with, before anything is created in it. Returns what could be better. */
async function checkSettings(db: Database): Promise<readonly string[]> {
  const wrong = await wrongSettings(db);
  const fatal = wrong.filter(({ tolerable }) => !tolerable).map(describe);
  if (fatal.length > 0) throw new InvalidOperationError(`${db.id} cannot be migrated. ${fatal.join(" ")}`);
  return wrong.map(describe);
}

const describe = ({ message, run }: WrongSetting): string => `${message} Run: ${run}`;

const entryOf = (queue: QueueNames, { number, name }: Migration): LedgerEntry => ({
  queue: queueId(queue),
  number,
  name,
});

async function migrateQueue(
  dialect: Dialect,
  tx: SqlExecutor,
  queue: QueueNames,
): Promise<readonly string[]> {
  const rows = await readLedger(dialect, queue.schema, () =>
    tx.query(dialect.ledger.applied(queue.schema), { queue: queueId(queue) }),
  );
  const done = new Set(rows.map((row) => Number(row.number)));
  const applied: string[] = [];
  for (const migration of dialect.migrations[queue.kind].filter((m) => !done.has(m.number))) {
    await withoutCollisions(dialect, queue, () => runBatches(tx, migration.up(queue)));
    await runBatches(tx, [dialect.ledger.record(queue.schema, entryOf(queue, migration))]);
    applied.push(`${queue.table} ${migration.number} ${migration.name}`);
  }
  await withoutCollisions(dialect, queue, () => runBatches(tx, dialect.routines(queue)));
  return applied;
}

/** Runs batches that change the schema. */
export async function runBatches(tx: SqlExecutor, batches: readonly string[]): Promise<void> {
  for (const batch of batches) await tx.query({ ...statement("schema", batch), unprepared: true }, {});
}

/** The queues that `migrate` creates with these options. */
export function chosenQueues(dialect: Dialect, options: MigrateOptions): readonly QueueNames[] {
  refuseUnknown(options, ["schema", "inbox", "outbox"], "migrate");
  const schema = options.schema ?? dialect.defaults.schema;
  if (options.schema !== undefined) requireIdentifier(schema, "schema");
  const queues: QueueNames[] = [];
  for (const kind of ["inbox", "outbox"] as const) {
    const table = options[kind] ?? dialect.defaults[kind];
    if (table === false) continue;
    requireIdentifier(table, kind);
    queues.push(dialect.names(kind, schema, table));
  }
  requireDistinct(queues);
  return queues;
}

/** Everything `migrate` would run on an empty database, batch by batch. */
export function schemaBatches(dialect: Dialect, options: MigrateOptions = {}): readonly string[] {
  const queues = chosenQueues(dialect, options);
  const schema = queues[0]?.schema ?? dialect.defaults.schema;
  return [
    ...dialect.ledger.prepare(schema),
    ...queues.flatMap((queue) => [
      ...dialect.migrations[queue.kind].flatMap((migration) => recordedMigration(dialect, queue, migration)),
      ...dialect.routines(queue),
    ]),
  ];
}

/** A migration with the statement that records it. */
export function recordedMigration(
  { ledger }: Dialect,
  queue: QueueNames,
  migration: Migration,
): readonly string[] {
  const entry = entryOf(queue, migration);
  const batches = [...migration.up(queue), ledger.record(queue.schema, entry)];
  return ledger.once === undefined ? batches : [ledger.once(queue.schema, entry, batches)];
}

/** The whole schema as text, for a DBA to read and run. It records its migrations, so a later `migrate` skips them. */
export const renderSchema = (dialect: Dialect, options: MigrateOptions = {}): string =>
  schemaBatches(dialect, options)
    .map((batch) => `${batch}${dialect.batchSeparator}`)
    .join("\n");

/** The settings of the database that oncebox does not work with, or not well. */
export async function wrongSettings({ dialect, driver }: Database): Promise<readonly WrongSetting[]> {
  const { settings, wrongSettings: wrong } = dialect.inspection;
  if (settings === undefined) return [];
  const [row] = await driver.query(settings, {});
  return row === undefined ? [] : wrong(row);
}
