import pg from "pg";
import { createInbox, type Database, migrate } from "../../src/index.js";
import { status } from "../../src/sql/dialect.js";
import { doneTable } from "../../src/sql/postgres/expressions.js";
import { openPostgres } from "../../src/sql/postgres/index.js";
import { startPostgres } from "../../test/support/start-postgres.js";
import { bareIngest, bareQueue } from "../bare/postgres.js";
import { payloadBytes } from "../messages.js";
import { startPeer } from "../peers/start-peer.js";
import { startResident } from "../residents/start-resident.js";
import { type Backlog, type BenchDatabase, closingThen, runSql } from "./bench-database.js";

/** A server of our own with PostgreSQL's default settings: fsync and synchronous_commit are on. */
export async function openPostgresBench(): Promise<BenchDatabase> {
  const server = await startPostgres();
  const { url } = server;
  let schemas = 0;
  // Of this run alone, in case that ONCEBOX_TEST_POSTGRES_URL names a server that others use too.
  const newSchema = () => `bench_${process.pid}_${++schemas}`;
  const dropped = async (schema: string) => {
    const client = new pg.Client(url);
    await client.connect();
    await client.query(`drop schema ${schema} cascade`);
    await client.end();
  };
  const droppingAfter = closingThen(dropped);

  return {
    title: "PostgreSQL",
    async openInbox(connections, backlog = { pending: 0, done: 0 }) {
      const schema = newSchema();
      const db = openPostgres({ url, maxConnections: connections });
      await migrate(db, { schema, outbox: false });
      await fill(db, schema, backlog);
      const inbox = createInbox(db, { schema });
      return droppingAfter({ inbox, url, schema, close: () => db.close() }, schema);
    },
    async openBareIngest(connections) {
      const schema = newSchema();
      return droppingAfter(await bareIngest(url, schema, connections), schema);
    },
    async openBareQueue(pending) {
      const schema = newSchema();
      return droppingAfter(await bareQueue(url, schema, pending, payloadBytes), schema);
    },
    async openForFunctions() {
      const schema = newSchema();
      const db = openPostgres({ url });
      await migrate(db, { schema });
      await runSql(db, `create table ${schema}.bare (id text primary key, payload text not null)`);
      const env = { ONCEBOX_DATABASE_URL: url, BENCH_SCHEMA: schema };
      return droppingAfter({ env, close: () => db.close() }, schema);
    },
    newPlace() {
      const schema = newSchema();
      return { url, schema, close: () => dropped(schema) };
    },
    peers: ["pg-boss", "graphile-worker"],
    async startPeer(name) {
      const schema = newSchema();
      return droppingAfter(await startPeer(name, url, schema), schema);
    },
    async startResident(name, settings) {
      const schema = newSchema();
      return droppingAfter(await startResident(name, url, schema, settings), schema);
    },
    countRoundTrips: (_opened, work) => countClientQueries(work),
    close: () => server.stop(),
  };
}

async function fill(db: Database, schema: string, { pending, done }: Backlog): Promise<void> {
  const names = db.dialect.names("inbox", schema, db.dialect.defaults.inbox);
  const total = pending + done;
  if (total === 0) return;
  await runSql(
    db,
    `insert into ${names.message} (source, message_id, topic, payload, first_seen_at, last_seen_at)
select 'bench', 'm-' || i, 'order.created', repeat('x', ${payloadBytes}), seen_at, seen_at
from generate_series(1, ${total}) i, lateral (select now() - (${total} - i) * interval '1 millisecond' as seen_at) t`,
  );
  // The older ones are done, as they would be.
  await runSql(
    db,
    `insert into ${doneTable(names)} (seq, processed_at, attempt)
select seq, first_seen_at, 0 from ${names.message} where seq <= ${done} order by seq`,
  );
  await runSql(
    db,
    `insert into ${names.state} (seq, status, visible_at)
select seq, ${status.ready}, first_seen_at from ${names.message} where seq > ${done} order by seq`,
  );
  await runSql(db, `vacuum analyze ${names.message}`);
  await runSql(db, `vacuum analyze ${names.state}`);
  await runSql(db, `vacuum analyze ${doneTable(names)}`);
  await runSql(db, "checkpoint");
}

/** Below oncebox's own driver: whatever any `pg` client is asked, `begin` and `commit` included. */
async function countClientQueries(work: () => Promise<unknown>): Promise<number> {
  const original = pg.Client.prototype.query;
  let queries = 0;
  pg.Client.prototype.query = function (this: pg.Client, ...args: unknown[]) {
    queries++;
    return Reflect.apply(original, this, args);
  } as typeof original;
  try {
    await work();
  } finally {
    pg.Client.prototype.query = original;
  }
  return queries;
}
