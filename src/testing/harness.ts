import type { Database } from "../sql/dialect.js";
import type { SqlExecutor, SqlRow } from "../sql/driver.js";

/** A transaction that the test opened itself with the database's own driver, as a user's code would. */
export interface CallerTransaction {
  readonly tx: SqlExecutor;
  /** Any SQL on the same connection, inside the transaction. */
  run(sql: string): Promise<void>;
  commit(): Promise<void>;
  rollback(): Promise<void>;
}

/** A database for one suite to itself: a schema of its own, or a file of its own. */
export interface TestDatabase {
  readonly db: Database;
  /** Give it to migrate, createInbox and createOutbox; undefined where the database has no schemas. */
  readonly schema: string | undefined;
  /** The same database through another driver instance, as another process would open it. */
  reopen(): Database;
  begin(): Promise<CallerTransaction>;
  /** Any SQL outside of oncebox: to look, or to break something on purpose. */
  raw(sql: string): Promise<readonly SqlRow[]>;
  close(): Promise<void>;
}

export interface ContractHarness {
  readonly name: string;
  open(): Promise<TestDatabase>;
}

/** A clock that stands still until it is told to go on. */
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
