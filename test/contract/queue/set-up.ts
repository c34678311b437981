import { onTestFinished } from "vitest";
import { getCurrentTest } from "vitest/suite";
import { newOwnerToken, type OwnerToken } from "../../../src/queue/leases.js";
import { schemaObjects } from "../../../src/sql/inspection.js";
import { migrate } from "../../../src/sql/migrate.js";
import { literal, type QueueNames, queueId } from "../../../src/sql/names.js";
import type { StoreOptions } from "../../../src/sql/store-options.js";
import { definitionChanges, type TestClock, type TestDatabase, testClock } from "../harness.js";
import { inSchemaOf, namesOf } from "../support/database.js";
import { type LogLine, recordingLogger } from "../support/recording-logger.js";

export const queueKinds = ["inbox", "outbox"] as const;
export type QueueKind = (typeof queueKinds)[number];

export interface QueueOptions<Key> extends Omit<StoreOptions<Key>, "clock"> {
  /** Inbox only. */
  readonly deadOnRedelivery?: "keep" | "revive";
  /** One to share with another queue; each has its own by default. */
  readonly clock?: TestClock;
  /** Use the database's own time instead of a clock that stands still. */
  readonly realTime?: boolean;
}

/** A queue's own table, and what its store is created with. */
export interface QueueSetUp<Key> {
  readonly settings: StoreOptions<Key> & { readonly deadOnRedelivery?: "keep" | "revive" };
  /** For the claims of a test with one worker. */
  readonly owner: OwnerToken;
  readonly clock: TestClock;
  readonly log: readonly LogLine[];
  readonly table: string;
  readonly names: QueueNames;
}

let tables = 0;

/** Each queue has a table to itself, so that a test can say exactly what a claim returns. */
export async function setUpQueue<Key>(
  database: TestDatabase,
  kind: QueueKind,
  { realTime = false, clock = testClock(), ...given }: QueueOptions<Key>,
): Promise<QueueSetUp<Key>> {
  const schema = inSchemaOf(database);
  const used = database.reusesTables ? usedTable(database, kind) : undefined;
  const table = used ?? `${kind}_${++tables}`;
  const names = namesOf(database, kind, table);
  const log: LogLine[] = [];
  if (used === undefined)
    await migrate(database.db, { ...schema, inbox: false, outbox: false, [kind]: table });
  if (database.reusesTables) reuseAfterTest(database, names);
  return {
    settings: {
      ...schema,
      table,
      logger: recordingLogger(log),
      ...(realTime ? {} : { clock }),
      ...given,
    },
    owner: newOwnerToken(),
    clock,
    log,
    table,
    names,
  };
}

const usedTables = new WeakMap<TestDatabase, Map<QueueNames["kind"], string[]>>();

/** A queue that an earlier test has left behind, emptied. */
const usedTable = (database: TestDatabase, kind: QueueNames["kind"]): string | undefined =>
  tablesToReuse(database, kind).pop();

/** Empties the queue after the running test, for a later one. A test that changed any definition keeps its queue. */
function reuseAfterTest(database: TestDatabase, names: QueueNames): void {
  if (getCurrentTest() === undefined) return; // made by a hook, for the tests of a whole suite
  const changes = definitionChanges(database);
  onTestFinished(async () => {
    if (definitionChanges(database) !== changes) return;
    await empty(database, names);
    tablesToReuse(database, names.kind).push(names.table);
  });
}

function tablesToReuse(database: TestDatabase, kind: QueueNames["kind"]): string[] {
  const kinds = usedTables.get(database) ?? new Map<QueueNames["kind"], string[]>();
  usedTables.set(database, kinds);
  const tables = kinds.get(kind) ?? [];
  kinds.set(kind, tables);
  return tables;
}

async function empty(database: TestDatabase, names: QueueNames): Promise<void> {
  const { dialect } = database.db;
  const batches = dialect.migrations[names.kind].flatMap((migration) => migration.up(names));
  const own = schemaObjects(batches).filter((object) => object.kind === "table");
  const quoted = (table: string) => namesOf(database, names.kind, table).object("");
  const deletes = own.toReversed().map((table) => `delete from ${quoted(table.name)}`);
  deletes.push(`delete from ${quoted("oncebox_operations")} where queue = ${literal(queueId(names))}`);
  await database.raw(deletes.join(";\n"));
}
