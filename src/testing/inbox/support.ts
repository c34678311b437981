import { afterAll, beforeAll } from "vitest";
import { createInbox, type Inbox, type InboxOptions, type IncomingMessage } from "../../inbox/inbox.js";
import type { InboxKey, InboxMessage } from "../../queue/message.js";
import { newOwnerToken, type OwnerToken } from "../../queue/owner-token.js";
import type { Database } from "../../sql/dialect.js";
import type { SqlExecutor } from "../../sql/driver.js";
import { migrate } from "../../sql/migrate.js";
import type { QueueNames } from "../../sql/names.js";
import { type ContractHarness, type TestClock, type TestDatabase, testClock } from "../harness.js";
import { type LogLine, recordingLogger } from "../outbox/support.js";

export {
  brokenConnection,
  columnOf,
  deadlock,
  hasOneConnection,
  isBabelfish,
  type LogLine,
  watched,
} from "../outbox/support.js";

export interface FreshInboxOptions extends Omit<InboxOptions, "clock"> {
  /** One to share with another inbox; each has its own by default. */
  readonly clock?: TestClock;
  /** The database's own time instead of a clock that stands still. */
  readonly realTime?: boolean;
}

/** An inbox on a table of its own, so that a test can say exactly what a claim must bring. */
export interface FreshInbox {
  readonly inbox: Inbox;
  readonly clock: TestClock;
  readonly logs: readonly LogLine[];
  readonly table: string;
  readonly names: QueueNames;
  /** For the claims of a test with one worker. */
  readonly owner: OwnerToken;
  /** The same table through another database, driver or set of options. */
  on(db: Database, options?: InboxOptions): Inbox;
}

export interface InboxContext {
  readonly database: () => TestDatabase;
  freshInbox(options?: FreshInboxOptions): Promise<FreshInbox>;
  /** A message with a key of its own. */
  message(overrides?: Partial<IncomingMessage>): IncomingMessage;
  messages(count: number, overrides?: Partial<IncomingMessage>): IncomingMessage[];
}

/** To call inside a `describe`: opens one database for its tests and closes it after them. */
export function createInboxContext(harness: ContractHarness): InboxContext {
  let opened: TestDatabase | undefined;
  let tables = 0;
  let made = 0;
  const database = (): TestDatabase => opened!;
  const message = (overrides: Partial<IncomingMessage> = {}): IncomingMessage => ({
    source: "test",
    messageId: `message-${String(++made).padStart(6, "0")}`,
    topic: "order.created",
    payload: `{"number":${made}}`,
    ...overrides,
  });
  beforeAll(async () => {
    opened = await harness.open();
  });
  afterAll(async () => {
    await opened?.close();
  });
  return {
    database,
    freshInbox: (options = {}) => makeInbox(database(), `Inbox${++tables}`, options),
    message,
    messages: (count, overrides) => Array.from({ length: count }, () => message(overrides)),
  };
}

async function makeInbox(
  database: TestDatabase,
  table: string,
  options: FreshInboxOptions,
): Promise<FreshInbox> {
  const { db } = database;
  const { realTime = false, clock = testClock(), ...given } = options;
  const schema = database.schema === undefined ? {} : { schema: database.schema };
  const logs: LogLine[] = [];
  const settings: InboxOptions = {
    ...schema,
    table,
    logger: recordingLogger(logs),
    ...(realTime ? {} : { clock }),
    ...given,
  };
  await migrate(db, { ...schema, inbox: table, outbox: false });
  return {
    inbox: createInbox(db, settings),
    clock,
    logs,
    table,
    names: db.dialect.names("inbox", database.schema ?? db.dialect.defaults.schema, table),
    owner: newOwnerToken(),
    on: (other, more = {}) => createInbox(other, { ...settings, ...more }),
  };
}

export const keyOf = ({ source, messageId }: InboxKey): InboxKey => ({ source, messageId });

/** Keys as sorted text, to compare sets of messages. */
export const keysOf = (keys: readonly InboxKey[]): string[] =>
  keys.map((key) => JSON.stringify([key.source, key.messageId])).sort();

/** The message as it is stored now. */
export async function stored(inbox: Inbox, key: InboxKey): Promise<InboxMessage> {
  const message = await inbox.get(keyOf(key));
  if (message === null) throw new Error(`The message ${key.messageId} is not in the inbox.`);
  return message;
}

/** Enqueues the message and claims it: it must be the only one that is due. */
export async function held(
  inbox: Inbox,
  owner: OwnerToken,
  message: IncomingMessage,
  leaseMs = 30_000,
): Promise<InboxMessage> {
  await inbox.receive(message);
  const claimed = await inbox.claim({ owner, leaseMs });
  if (claimed.length !== 1) throw new Error(`Expected one message to claim, not ${claimed.length}.`);
  return claimed[0]!;
}

/** Claims until nothing is due; what comes is held by the owner. */
export async function claimAll(inbox: Inbox, owner: OwnerToken, batchSize = 100): Promise<InboxMessage[]> {
  const all: InboxMessage[] = [];
  for (;;) {
    const claimed = await inbox.claim({ owner, batchSize });
    if (claimed.length === 0) return all;
    all.push(...claimed);
  }
}

/** How many rows a table, or a part of it, has. */
export async function rowCount(database: TestDatabase, table: string): Promise<number> {
  const [row] = await database.raw(`select count(*) as n from ${table}`);
  return Number(row?.n);
}

/** The database, with every query in one open transaction. */
export const inTransaction = (db: Database, tx: SqlExecutor): Database => ({
  ...db,
  driver: { ...db.driver, query: (statement, params) => tx.query(statement, params) },
});

/** Goes on when a statement that names the table waits for another transaction's lock, or when `work` has ended. */
export async function untilBlocked(
  database: TestDatabase,
  work: Promise<unknown>,
  table: string,
): Promise<void> {
  const waiting =
    database.db.dialect.name === "postgres"
      ? `select count(*) as n from pg_stat_activity where wait_event_type = 'Lock' and query like '%"${table}"%'`
      : "select count(*) as n from sys.dm_exec_requests where blocking_session_id > 0";
  let ended = false;
  const end = () => {
    ended = true;
  };
  work.then(end, end);
  for (let look = 0; look < 5_000 && !ended; look++) {
    const [row] = await database.raw(waiting);
    if (Number(row?.n) > 0) return;
  }
}
