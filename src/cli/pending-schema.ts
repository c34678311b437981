import { existsSync } from "node:fs";
import { checkSchema, readCatalogue } from "../app/doctor/check-schema.js";
import type { Database } from "../sql/dialect.js";
import { chosenQueues, type MigrateOptions, recordedMigration } from "../sql/migrate.js";
import { type QueueNames, queueId } from "../sql/names.js";
import { sqliteFileOf } from "../sql/sqlite-file-of.js";

/** What `migrate` would change in this database, batch by batch; empty where it is up to date. It changes nothing. */
export async function pendingBatches(given: Database, options: MigrateOptions): Promise<readonly string[]> {
  const file = sqliteFileOf(given);
  const isNew = file !== undefined && !existsSync(file);
  const db = isNew ? given : ((await given.dialect.inspection.file?.(given))?.db ?? given);
  try {
    const pending: string[] = [];
    const queues = chosenQueues(given.dialect, options);
    for (const queue of queues) pending.push(...(await pendingOf(db, queue, isNew)));
    const schema = queues[0]?.schema ?? given.dialect.defaults.schema;
    return pending.length === 0 ? [] : [...given.dialect.ledger.prepare(schema), ...pending];
  } finally {
    if (db !== given) await db.close();
  }
}

async function pendingOf(db: Database, queue: QueueNames, isNew: boolean): Promise<readonly string[]> {
  const { dialect } = db;
  const applied = isNew ? new Set() : await appliedTo(db, queue);
  const migrations = dialect.migrations[queue.kind].filter(({ number }) => !applied.has(number));
  const isCurrent = migrations.length === 0 && !(await hasProblems(db, queue));
  if (isCurrent) return [];
  return [
    ...migrations.flatMap((migration) => recordedMigration(dialect, queue, migration)),
    ...dialect.routines(queue),
  ];
}

async function appliedTo({ dialect, driver }: Database, queue: QueueNames): Promise<ReadonlySet<unknown>> {
  try {
    const rows = await driver.query(dialect.ledger.applied(queue.schema), { queue: queueId(queue) });
    return new Set(rows.map((row) => Number(row.number)));
  } catch (error) {
    if (!dialect.isSchemaMissing(error)) throw error;
    return new Set();
  }
}

/** Routines have no number. They are pending where they are not the ones of this version. */
async function hasProblems(db: Database, queue: QueueNames): Promise<boolean> {
  const findings = await checkSchema(db, queue, () => readCatalogue(db, queue.schema));
  return findings.some(({ level, run }) => level === "problem" && run === "oncebox migrate");
}
