import { newOwnerToken, type OwnerToken } from "../../../src/queue/leases.js";
import { migrate } from "../../../src/sql/migrate.js";
import type { QueueNames } from "../../../src/sql/names.js";
import type { StoreOptions } from "../../../src/sql/store-options.js";
import { type TestClock, type TestDatabase, testClock } from "../harness.js";
import { inSchemaOf, namesOf } from "../support/database.js";
import { type LogLine, recordingLogger } from "../support/recording-logger.js";
import { reuseAfterTest, usedTable } from "./used-tables.js";

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
