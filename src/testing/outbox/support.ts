import { afterAll, beforeAll, describe, expect } from "vitest";
import type { LogFields, Logger } from "../../base/logger.js";
import { createOutbox, type Outbox, type OutboxOptions, type OutgoingMessage } from "../../outbox/outbox.js";
import type { OutboxKey, OutboxMessage } from "../../queue/message.js";
import { newOwnerToken, type OwnerToken } from "../../queue/owner-token.js";
import type { Database } from "../../sql/dialect.js";
import type { SqlDriver, SqlRow } from "../../sql/driver.js";
import { migrate } from "../../sql/migrate.js";
import type { QueueNames } from "../../sql/names.js";
import { type ContractHarness, type TestClock, type TestDatabase, testClock } from "../harness.js";

export interface LogLine {
  readonly level: keyof Logger;
  readonly message: string;
  readonly fields: LogFields;
}

export interface DeadLetter {
  readonly id: string;
  readonly reason: string;
}

/** An outbox on a table of its own, so that a test can say exactly what a claim must bring. */
export interface Box {
  readonly outbox: Outbox;
  readonly owner: OwnerToken;
  readonly clock: TestClock;
  readonly log: readonly LogLine[];
  readonly dead: readonly DeadLetter[];
  readonly names: QueueNames;
  /** The same table through another database, driver or set of options. */
  on(db: Database, options?: OutboxOptions): Outbox;
  /** Enqueues and claims, so that `box.owner` holds them. */
  held(count: number, message?: Partial<OutgoingMessage>): Promise<readonly OutboxMessage[]>;
  /** What the table's view says, in the order of arrival. */
  view(): Promise<readonly SqlRow[]>;
}

export interface Theme {
  database(): TestDatabase;
  box(options?: BoxOptions): Promise<Box>;
}

export interface BoxOptions extends OutboxOptions {
  /** The database's own time instead of a clock that stands still. */
  readonly realTime?: boolean;
}

/** A database for the tests of one theme; every box in it has a table of its own. */
export function outboxTheme(harness: ContractHarness, title: string, tests: (theme: Theme) => void): void {
  describe(`${harness.name} outbox: ${title}`, () => {
    let opened: TestDatabase | undefined;
    let boxes = 0;
    const database = (): TestDatabase => opened!;
    beforeAll(async () => {
      opened = await harness.open();
    });
    afterAll(async () => {
      await opened?.close();
    });
    tests({ database, box: (options = {}) => makeBox(database(), `Box${++boxes}`, options) });
  });
}

async function makeBox(database: TestDatabase, table: string, options: BoxOptions): Promise<Box> {
  const { db } = database;
  const { realTime = false, ...given } = options;
  const schema = database.schema === undefined ? {} : { schema: database.schema };
  const clock = testClock();
  const log: LogLine[] = [];
  const dead: DeadLetter[] = [];
  const settings: OutboxOptions = {
    ...schema,
    table,
    logger: recordingLogger(log),
    onDead: ({ message, reason }) => {
      dead.push({ id: message.id, reason });
    },
    ...(realTime ? {} : { clock }),
    ...given,
  };
  await migrate(db, { ...schema, outbox: table, inbox: false });
  const names = db.dialect.names("outbox", database.schema ?? db.dialect.defaults.schema, table);
  const outbox = createOutbox(db, settings);
  const owner = newOwnerToken();
  return {
    outbox,
    owner,
    clock,
    log,
    dead,
    names,
    on: (other, more = {}) => createOutbox(other, { ...settings, ...more }),
    async held(count, message = {}) {
      await outbox.enqueue(messages(count, message));
      const claimed = await outbox.claim({ owner, batchSize: count });
      expect(claimed).toHaveLength(count);
      return claimed;
    },
    view: () => database.raw(`select * from ${names.view} order by ${columnOf(db, "Payload")}`),
  };
}

/** A column of the views, quoted where the database would otherwise change its case. */
export const columnOf = (db: Database, name: string): string =>
  db.dialect.name === "postgres" ? `"${name}"` : name;

export function recordingLogger(lines: LogLine[]): Logger {
  const at = (level: keyof Logger) => (message: string, fields: LogFields) => {
    lines.push({ level, message, fields });
  };
  return { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
}

/** `count` messages whose payloads are their numbers: "000", "001", … */
export function messages(count: number, message: Partial<OutgoingMessage> = {}): OutgoingMessage[] {
  return Array.from({ length: count }, (_, index) => ({
    topic: "test",
    payload: String(index).padStart(3, "0"),
    ...message,
  }));
}

export const idsOf = (keys: readonly OutboxKey[]): string[] => keys.map((key) => key.id).sort();

/** The message as it is stored now. */
export async function stored(outbox: Outbox, key: OutboxKey): Promise<OutboxMessage> {
  const message = await outbox.get({ id: key.id });
  if (message === null) throw new Error(`The message ${key.id} is not in the outbox.`);
  return message;
}

/** Claims until nothing is due; what comes is held by the owner. */
export async function claimAll(outbox: Outbox, owner: OwnerToken, batchSize = 100): Promise<OutboxMessage[]> {
  const all: OutboxMessage[] = [];
  for (;;) {
    const claimed = await outbox.claim({ owner, batchSize });
    if (claimed.length === 0) return all;
    all.push(...claimed);
  }
}

/** A database whose driver tells what is called, and can be told to fail. */
export interface WatchedDatabase extends Database {
  /** The statements' names, and `transaction` and `exclusively`, in the order of the calls. */
  readonly calls: string[];
}

/** What a call does: run as it is, fail without running, or run and lose the answer. */
export type Fate = "run" | { readonly fail: unknown } | { readonly loseAnswer: unknown };

/** Every query meets the next of the fates; when they are used up it runs. */
export function watched(db: Database, fates: readonly Fate[] = []): WatchedDatabase {
  const calls: string[] = [];
  const rest = [...fates];
  const driver: SqlDriver = {
    async query(statement, params, options) {
      calls.push(statement.name);
      const fate = rest.shift() ?? "run";
      if (fate !== "run" && "fail" in fate) throw fate.fail;
      const rows = await db.driver.query(statement, params, options);
      if (fate !== "run") throw fate.loseAnswer;
      return rows;
    },
    transaction(work, options) {
      calls.push("transaction");
      return db.driver.transaction(work, options);
    },
    close: () => db.driver.close(),
  };
  return {
    ...db,
    driver,
    calls,
    exclusively(schema, work) {
      calls.push("exclusively");
      return db.exclusively(schema, work);
    },
  };
}

const faults = [
  Object.assign(new Error("deadlock detected"), { code: "40P01" }),
  Object.assign(new Error("Transaction was deadlocked and has been chosen as the victim"), {
    name: "RequestError",
    code: "EREQUEST",
    number: 1205,
  }),
  Object.assign(new Error("database is locked"), { code: "ERR_SQLITE_ERROR", errcode: 5 }),
  Object.assign(new Error("read ECONNRESET"), { code: "ECONNRESET" }),
  Object.assign(new Error("Connection lost - read ECONNRESET"), { name: "ConnectionError", code: "ESOCKET" }),
];

/** An error after which this database has undone the work. */
export function deadlock(db: Database): Error {
  const fault = faults.find((error) => db.dialect.classify(error) === "rolledBack");
  if (fault === undefined) throw new Error(`No known fault is a rolled back one for ${db.dialect.name}.`);
  return fault;
}

/** An error after which nobody knows whether it was committed; an embedded database has none, so there a deadlock. */
export const brokenConnection = (db: Database): Error =>
  faults.find((error) => db.dialect.classify(error) === "unknown") ?? deadlock(db);

/** Only one connection exists (SQLite in memory): whoever does not hold its transaction waits for it. */
export const hasOneConnection = (database: TestDatabase): boolean => database.reopen() === database.db;

/** Babelfish takes SQL Server's lock hints and ignores them, and is not to be timed. */
export async function isBabelfish(database: TestDatabase): Promise<boolean> {
  if (database.db.dialect.name !== "sqlserver") return false;
  const [row] = await database.raw("select @@version as version");
  return /babelfish/i.test(String(row?.version));
}
