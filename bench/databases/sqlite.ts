import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInbox, type Database, migrate } from "../../src/index.js";
import { status } from "../../src/sql/dialect.js";
import { loadSqlite } from "../../src/sql/sqlite/client.js";
import { doneTable } from "../../src/sql/sqlite/expressions.js";
import { openSqlite } from "../../src/sql/sqlite/index.js";
import { bareIngest, bareQueue, type SqliteBinding } from "../bare/sqlite.js";
import { payloadBytes } from "../messages.js";
import { startPeer } from "../peers/start-peer.js";
import { type Backlog, type BenchDatabase, runSql } from "./bench-database.js";

/** Files in a temporary folder, with the pragmas that oncebox sets by default. */
export async function openSqliteBench(): Promise<BenchDatabase> {
  const folder = await mkdtemp(join(tmpdir(), "oncebox-bench-"));
  const DatabaseSync = (await loadSqlite()) as unknown as new (file: string) => SqliteBinding;
  const queries = new WeakMap<object, () => number>();
  let files = 0;
  const newFile = () => join(folder, `${++files}.db`);

  return {
    title: "SQLite",
    // Embedded, one connection does everything: there is one writer anyway.
    async openInbox(_connections, backlog = { pending: 0, done: 0 }) {
      const file = newFile();
      const { db, count } = counting(openSqlite({ file }));
      await migrate(db, { outbox: false });
      await fill(db, backlog);
      const opened = { inbox: createInbox(db), url: `sqlite:${file}`, schema: "", close: () => db.close() };
      queries.set(opened, count);
      return opened;
    },
    openBareIngest: async () => bareIngest(new DatabaseSync(newFile())),
    openBareQueue: async (pending) => bareQueue(new DatabaseSync(newFile()), pending, payloadBytes),
    async openForFunctions() {
      const file = newFile();
      const db = openSqlite({ file });
      await migrate(db);
      await runSql(db, "create table bare (id text primary key, payload text not null)");
      return { env: { ONCEBOX_DATABASE_URL: `sqlite:${file}` }, close: () => db.close() };
    },
    newPlace: () => ({ url: `sqlite:${newFile()}`, schema: "", close: async () => {} }),
    peers: ["plainjob"],
    startPeer: (name) => startPeer(name, newFile()),
    async countRoundTrips(opened, work) {
      const count = queries.get(opened)!;
      const before = count();
      await work();
      return count() - before;
    },
    close: () => rm(folder, { recursive: true, force: true }),
  };
}

/** Embedded there are no round trips; what would be one is a call of the driver. */
function counting(db: Database): { readonly db: Database; readonly count: () => number } {
  let calls = 0;
  const query: typeof db.driver.query = (statement, params, options) => {
    calls++;
    return db.driver.query(statement, params, options);
  };
  return { db: { ...db, driver: { ...db.driver, query } }, count: () => calls };
}

async function fill(db: Database, { pending, done }: Backlog): Promise<void> {
  const names = db.dialect.names("inbox", db.dialect.defaults.schema, db.dialect.defaults.inbox);
  const total = pending + done;
  if (total === 0) return;
  const start = Date.now() - total;
  const insert = (first: number, last: number) => `with recursive numbers (i) as (
  select ${first} union all select i + 1 from numbers where i < ${last}
)
insert into ${names.message} (seq, source, message_id, topic, payload, first_seen_at, last_seen_at)
select i, 'bench', 'm-' || i, 'order.created', printf('%.*c', ${payloadBytes}, 'x'), ${start} + i, ${start} + i
from numbers`;
  // The older messages are done.
  await runSql(db, insert(1, total));
  await runSql(
    db,
    `insert into ${doneTable(names)} (seq, processed_at, attempt) select seq, first_seen_at, 0 from ${names.message} where seq <= ${done}`,
  );
  await runSql(
    db,
    `insert into ${names.state} (seq, status, visible_at) select seq, ${status.ready}, first_seen_at from ${names.message} where seq > ${done}`,
  );
  await runSql(db, "analyze");
  await runSql(db, "pragma wal_checkpoint (truncate)");
}
