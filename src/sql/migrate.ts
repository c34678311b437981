import { refuseUnknown } from "../queue/arguments.js";
import type { Database, Dialect } from "./dialect.js";
import { type SqlExecutor, statement } from "./driver.js";
import { type QueueNames, requireIdentifier } from "./names.js";

export interface MigrateOptions {
  readonly schema?: string;
  /** Names of the tables; `false` leaves that queue out. */
  readonly inbox?: string | false;
  readonly outbox?: string | false;
}

export interface MigrateResult {
  /** What this call applied: `inbox 1 inbox`. Empty when the schema was up to date. */
  readonly applied: readonly string[];
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
  return db.exclusively(schema, async (tx) => {
    await run(tx, db.dialect.ledger.prepare(schema));
    const applied: string[] = [];
    for (const queue of queues) applied.push(...(await migrateQueue(db.dialect, tx, queue)));
    return { applied };
  });
}

async function migrateQueue(
  dialect: Dialect,
  tx: SqlExecutor,
  queue: QueueNames,
): Promise<readonly string[]> {
  const name = `${queue.kind}:${queue.table}`;
  const rows = await tx.query(dialect.ledger.applied(queue.schema), { queue: name });
  const done = new Set(rows.map((row) => Number(row.number)));
  const applied: string[] = [];
  for (const migration of dialect.migrations[queue.kind].filter((m) => !done.has(m.number))) {
    await run(tx, migration.up(queue));
    await tx.query(dialect.ledger.record(queue.schema), {
      queue: name,
      number: migration.number,
      name: migration.name,
    });
    applied.push(`${queue.table} ${migration.number} ${migration.name}`);
  }
  await run(tx, dialect.routines(queue));
  return applied;
}

async function run(tx: SqlExecutor, batches: readonly string[]): Promise<void> {
  for (const batch of batches) await tx.query({ ...statement("schema", batch), unprepared: true }, {});
}

function chosenQueues(dialect: Dialect, options: MigrateOptions): readonly QueueNames[] {
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
  return queues;
}

/** The whole schema as text, for a DBA to read and run. */
export function renderSchema(dialect: Dialect, options: MigrateOptions = {}, separator = ";\n"): string {
  const queues = chosenQueues(dialect, options);
  const schema = queues[0]?.schema ?? dialect.defaults.schema;
  const batches = [
    ...dialect.ledger.prepare(schema),
    ...queues.flatMap((queue) => [
      ...dialect.migrations[queue.kind].flatMap((migration) => [
        ...migration.up(queue),
        recordText(dialect, queue, migration.number, migration.name),
      ]),
      ...dialect.routines(queue),
    ]),
  ];
  return batches.map((batch) => `${batch}${separator}`).join("\n");
}

/** The ledger's insert with its values written out, so that a later `migrate` knows what the DBA ran. */
function recordText(dialect: Dialect, queue: QueueNames, number: number, name: string): string {
  const literal = (value: string) => `'${value.replaceAll("'", "''")}'`;
  const values: Record<string, string> = {
    queue: literal(`${queue.kind}:${queue.table}`),
    number: String(number),
    name: literal(name),
  };
  return dialect.ledger
    .record(queue.schema)
    .steps[0]!.replace(/[:@](queue|number|name)\b/g, (_, key: string) => values[key]!);
}
