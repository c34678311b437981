import { InvalidArgumentError, InvalidOperationError } from "../errors.js";
import type { Dialect } from "./dialect.js";
import type { QueueNames } from "./names.js";

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
  "_state",
  "_messages",
  "_done",
  "_partition_queue",
  "_partition_lock",
  "_pending_arrivals",
  "_attempts",
  "_archive",
  "_controls",
];

/**
 * Refuses an outbox called "InboxState", which would collide with the inbox's own table. The names of all dialects are
 * refused on each, so that an application can change its database.
 */
export function requireDistinct(queues: readonly QueueNames[]): void {
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
export async function withoutCollisions<T>(
  dialect: Dialect,
  queue: QueueNames,
  part: () => Promise<T>,
): Promise<T> {
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
export async function readLedger<T>(dialect: Dialect, schema: string, read: () => Promise<T>): Promise<T> {
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
