import { Connection } from "tedious";
import { dropSchema } from "../../src/cli/scratch-database.js";
import { createInbox, type Inbox, migrate, newOwnerToken } from "../../src/index.js";
import { openSqlServer } from "../../src/sql/sqlserver/index.js";
import { bareIngest, bareQueue } from "../bare/sqlserver.js";
import { payloadBytes } from "../messages.js";
import { type Backlog, type BenchDatabase, closingThen, runSql } from "./bench-database.js";

/** The server that `--url` names. Its settings are its own: say them beside the numbers. */
export async function openSqlServerBench(url: string): Promise<BenchDatabase> {
  let schemas = 0;
  const newSchema = () => `bench_${process.pid}_${++schemas}`;
  const open = (maxConnections = 4) =>
    openSqlServer({ url, maxConnections, config: { requestTimeout: 120_000 } });
  const dropped = async (schema: string): Promise<void> => {
    const db = open(1);
    await dropSchema(db, schema);
    await db.close();
  };
  const droppingAfter = closingThen(dropped);
  return {
    title: "SQL Server",
    async openInbox(connections, backlog = { pending: 0, done: 0 }) {
      const schema = newSchema();
      const db = open(connections);
      await migrate(db, { schema, outbox: false });
      const inbox = createInbox(db, { schema });
      await fill(inbox, backlog);
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
      const db = open();
      await migrate(db, { schema });
      await runSql(
        db,
        `create table ${schema}.bare (id nvarchar(200) not null primary key, payload nvarchar(max) not null)`,
      );
      const env = { ONCEBOX_DATABASE_URL: url, BENCH_SCHEMA: schema };
      return droppingAfter({ env, close: () => db.close() }, schema);
    },
    newPlace() {
      const schema = newSchema();
      return { url, schema, close: () => dropped(schema) };
    },
    peers: [],
    startPeer: (name) => Promise.reject(new Error(`${name} does not run on SQL Server.`)),
    countRoundTrips: (_opened, work) => countRequests(work),
    close: async () => {},
  };
}

const fillBatch = 1_000;

/** By the inbox's own calls: the older messages are done, as they would be. */
async function fill(inbox: Inbox, { pending, done }: Backlog): Promise<void> {
  const total = pending + done;
  const payload = "x".repeat(payloadBytes);
  for (let from = 0; from < total; from += fillBatch) {
    const count = Math.min(fillBatch, total - from);
    await inbox.enqueue(
      Array.from({ length: count }, (_, index) => ({
        source: "bench",
        messageId: `m-${from + index}`,
        topic: "order.created",
        payload,
      })),
    );
  }
  const owner = newOwnerToken();
  for (let left = done; left > 0; ) {
    const claimed = await inbox.claim({ owner, batchSize: Math.min(left, fillBatch) });
    await inbox.ack(owner, claimed);
    left -= claimed.length;
  }
}

const sent = ["execSql", "execSqlBatch", "callProcedure", "beginTransaction", "commitTransaction"] as const;

/** Below oncebox's own driver: whatever any connection of tedious is asked. */
async function countRequests(work: () => Promise<unknown>): Promise<number> {
  const prototype = Connection.prototype as unknown as Record<string, (...args: unknown[]) => unknown>;
  const originals = sent.map((name) => [name, prototype[name]!] as const);
  let requests = 0;
  for (const [name, original] of originals)
    prototype[name] = function (this: unknown, ...args: unknown[]) {
      requests++;
      return Reflect.apply(original, this, args);
    };
  try {
    await work();
  } finally {
    for (const [name, original] of originals) prototype[name] = original;
  }
  return requests;
}
