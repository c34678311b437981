import { onTestFinished } from "vitest";
import { getCurrentTest } from "vitest/suite";
import { schemaObjects } from "../../../src/sql/inspection.js";
import { literal, type QueueNames, queueId } from "../../../src/sql/names.js";
import { definitionChanges, type TestDatabase } from "../harness.js";
import { namesOf } from "../support/database.js";

const free = new WeakMap<TestDatabase, Map<QueueNames["kind"], string[]>>();

/** A queue that an earlier test has left behind, emptied. */
export const usedTable = (database: TestDatabase, kind: QueueNames["kind"]): string | undefined =>
  freeTables(database, kind).pop();

/** Empties the queue after the running test, for a later one. A test that changed any definition keeps its queue. */
export function reuseAfterTest(database: TestDatabase, names: QueueNames): void {
  if (getCurrentTest() === undefined) return; // made by a hook, for the tests of a whole suite
  const changes = definitionChanges(database);
  onTestFinished(async () => {
    if (definitionChanges(database) !== changes) return;
    await empty(database, names);
    freeTables(database, names.kind).push(names.table);
  });
}

function freeTables(database: TestDatabase, kind: QueueNames["kind"]): string[] {
  const kinds = free.get(database) ?? new Map<QueueNames["kind"], string[]>();
  free.set(database, kinds);
  const tables = kinds.get(kind) ?? [];
  kinds.set(kind, tables);
  return tables;
}

async function empty(database: TestDatabase, names: QueueNames): Promise<void> {
  const { dialect } = database.db;
  const batches = dialect.migrations[names.kind].flatMap((migration) => migration.up(names));
  const own = schemaObjects(batches).filter((object) => object.kind === "table");
  const quoted = (table: string) => namesOf(database, names.kind, table).message;
  const deletes = own.toReversed().map((table) => `delete from ${quoted(table.name)}`);
  deletes.push(`delete from ${quoted("oncebox_operations")} where queue = ${literal(queueId(names))}`);
  await database.raw(deletes.join(";\n"));
}
