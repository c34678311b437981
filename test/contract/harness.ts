import { afterAll, beforeAll, type TestContext } from "vitest";
import type { Database } from "../../src/sql/dialect.js";
import type { SqlExecutor, SqlRow } from "../../src/sql/driver.js";

/** A transaction that the test opened itself with the database's own driver, as a user's code would. */
export interface CallerTransaction {
  readonly tx: SqlExecutor;
  /** The driver's own object, as a caller could give it by mistake. */
  readonly native: unknown;
  /** Any SQL on the same connection, inside the transaction. */
  run(sql: string): Promise<void>;
  commit(): Promise<void>;
  rollback(): Promise<void>;
}

/** What not every database can show. A test that needs a capability is skipped by name where it is missing. */
export interface DatabaseSupport {
  /** Two transactions can write at the same time. */
  readonly concurrentWriters: boolean;
  /** A transaction can lock one row, and a claim passes over it. */
  readonly rowLocks: boolean;
  /** The server says which statement waits for a lock. */
  readonly visibleLockWaits: boolean;
  /** A reader does not wait for a transaction that writes: it sees what was committed before. */
  readonly snapshotReads: boolean;
  /** `reopen` opens a connection of its own. */
  readonly severalConnections: boolean;
}

const capabilities: Readonly<Record<keyof DatabaseSupport, string>> = {
  concurrentWriters: "transactions that write at the same time",
  rowLocks: "row locks",
  visibleLockWaits: "a view of the statements that wait for a lock",
  snapshotReads: "reads that do not wait for a writer",
  severalConnections: "several connections",
};

/** Skips the running test where the database lacks the capability. */
export function skipUnless(
  test: Pick<TestContext, "skip">,
  database: TestDatabase,
  capability: keyof DatabaseSupport,
): void {
  test.skip(!database.supports[capability], `needs ${capabilities[capability]}`);
}

/** A database for one suite to itself: a schema of its own, or a file of its own. */
export interface TestDatabase {
  readonly db: Database;
  /** Give it to migrate, createInbox and createOutbox; undefined where the database has no schemas. */
  readonly schema: string | undefined;
  readonly supports: DatabaseSupport;
  /** Tests take over the emptied queues of earlier tests: making one takes longer than most tests. */
  readonly reusesTables?: boolean;
  /** The same database through another driver instance, as another process would open it. */
  reopen(): Database;
  /** With `never`, a connection of the caller's on which no transaction has begun; where there are several connections. */
  begin(when?: "never"): Promise<CallerTransaction>;
  /** Any SQL outside of oncebox: to read what is stored, or to break something on purpose. */
  raw(sql: string): Promise<readonly SqlRow[]>;
  close(): Promise<void>;
}

export interface ContractHarness {
  readonly name: string;
  open(): Promise<TestDatabase>;
}

/** A harness whose databases child processes can open. */
export interface KillableHarness extends ContractHarness {
  /** The URL or file that a child process opens. */
  urlOf(database: TestDatabase): string;
}

/** Opens one database for the tests of the surrounding `describe`, and closes it after them. */
export function useDatabase(harness: ContractHarness): () => TestDatabase {
  let opened: TestDatabase | undefined;
  beforeAll(async () => {
    opened = countingDefinitions(await harness.open());
  });
  afterAll(async () => {
    await opened?.close();
  });
  return () => opened!;
}

const changes = new WeakMap<TestDatabase, number>();

/** How often tests have changed definitions: made a trigger, added a constraint, dropped a table. */
export const definitionChanges = (database: TestDatabase): number => changes.get(database) ?? 0;

function countingDefinitions(database: TestDatabase): TestDatabase {
  const counting: TestDatabase = {
    ...database,
    raw(sql) {
      if (/\b(create|alter|drop)\b/i.test(sql)) changes.set(counting, definitionChanges(counting) + 1);
      return database.raw(sql);
    },
  };
  return counting;
}

/** A clock that stands still until a test advances it. */
export interface TestClock {
  (): Date;
  advance(ms: number): void;
}

export function testClock(startMs: number = Date.UTC(2030, 0, 1)): TestClock {
  let nowMs = startMs;
  const clock = () => new Date(nowMs);
  return Object.assign(clock, {
    advance(ms: number) {
      nowMs += ms;
    },
  });
}
