import { createInbox, type Inbox } from "../../../src/inbox/inbox.js";
import { createSqlInboxStore, type SqlInboxStore } from "../../../src/inbox-store/sql-inbox-store.js";
import type { InboxKey } from "../../../src/queue/message.js";
import type { Database } from "../../../src/sql/dialect.js";
import type { QueueNames } from "../../../src/sql/names.js";
import { type ContractHarness, type TestClock, type TestDatabase, useDatabase } from "../harness.js";
import { setUpQueue } from "../queue/set-up.js";
import type { InboxStoreHarness, TestLeasingStore } from "./harness.js";

/** A store on a table of its own, and the inbox on the same table. */
export interface FreshStore {
  readonly store: SqlInboxStore;
  readonly inbox: Inbox;
  readonly clock: TestClock;
  readonly names: QueueNames;
  /** The same table, with another source or through another database. */
  on(db: Database, options?: { readonly source?: string; readonly retentionMs?: number }): SqlInboxStore;
}

export interface SqlStoreContext {
  readonly database: () => TestDatabase;
  freshStore(): Promise<FreshStore>;
}

/** Call it inside a `describe`: it opens one database for the tests and closes it after them. */
export function createSqlStoreContext(harness: ContractHarness): SqlStoreContext {
  const database = useDatabase(harness);
  return { database, freshStore: () => makeStore(database()) };
}

async function makeStore(database: TestDatabase): Promise<FreshStore> {
  const { settings, clock, names } = await setUpQueue<InboxKey>(database, "inbox", {});
  const { schema, table, logger } = settings;
  const on: FreshStore["on"] = (db, options = {}) =>
    createSqlInboxStore(db, { schema, table, logger, clock, ...options });
  return { store: on(database.db), inbox: createInbox(database.db, settings), clock, names, on };
}

/** A SQL database for the suite of all leasing stores. Its clock makes leases end. */
export const sqlStoreHarness = (harness: ContractHarness): InboxStoreHarness<TestLeasingStore> => ({
  name: harness.name,
  async open() {
    const database = await harness.open();
    const { store, clock, on } = await makeStore(database);
    let another: SqlInboxStore | undefined;
    return {
      store,
      clock,
      shortLeaseMs: 30_000,
      expireShortLeases: async () => clock.advance(30_000),
      reopen: async () => {
        another ??= on(database.reopen());
        return another;
      },
      close: () => database.close(),
    };
  },
});
