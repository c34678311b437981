import { randomUUID } from "node:crypto";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInbox, type Database, type Inbox, migrate, statement } from "../../../src/index.js";
import type { BundledDatabase } from "../../../src/packaging/own-package.js";
import { openPostgres } from "../../../src/sql/postgres/index.js";
import { openSqlite } from "../../../src/sql/sqlite/index.js";
import { type CuttableProxy, startProxy } from "../../support/cuttable-proxy.js";
import { sqlServerHarness } from "../../support/sqlserver-harness.js";
import { webhookSecret } from "./http-events.js";

/** A database for the functions under test, and the test's own connection to it. */
export interface FunctionsDatabase {
  readonly kind: BundledDatabase;
  /** The environment of the functions. */
  readonly env: Readonly<Record<string, string>>;
  readonly db: Database;
  readonly inbox: Inbox;
  /** The rows that handlers have written, sorted by name. */
  effects(): Promise<readonly string[]>;
  /** The same environment, with a database that is away until it is brought back. */
  away(): Promise<{ readonly env: Readonly<Record<string, string>>; bringBack(): Promise<void> }>;
  /** Closes all connections of functions, as a restarting server does. */
  dropConnections(): Promise<void>;
  close(): Promise<void>;
}

const common = { TEST_WEBHOOK_SECRET: webhookSecret };

export async function postgresForFunctions(url: string): Promise<FunctionsDatabase> {
  const schema = `t_${randomUUID().slice(0, 8)}`;
  const table = `${schema}.effects`;
  const target = new URL(url);
  target.searchParams.set("application_name", schema);
  const db = openPostgres({ url });
  const lines: CuttableProxy[] = [];
  await migrate(db, { schema });
  await run(db, `create table ${table} (message text not null, process int not null)`);
  const env = { ...common, TEST_SCHEMA: schema, TEST_EFFECTS: table, ONCEBOX_DATABASE_URL: target.href };
  return {
    ...readers(db, table),
    kind: "postgres",
    env,
    inbox: createInbox(db, { schema }),
    async away() {
      const line = await startProxy(target.hostname, Number(target.port || 5432));
      lines.push(line);
      await line.cut();
      const through = new URL(target);
      through.hostname = "127.0.0.1";
      through.port = String(line.port);
      return { env: { ...env, ONCEBOX_DATABASE_URL: through.href }, bringBack: () => line.mend() };
    },
    dropConnections: () =>
      run(db, `select pg_terminate_backend(pid) from pg_stat_activity where application_name = '${schema}'`),
    async close() {
      await Promise.all(lines.map((line) => line.cut()));
      await run(db, `drop schema ${schema} cascade`);
      await db.close();
    },
  };
}

export async function sqlServerForFunctions(url: string): Promise<FunctionsDatabase> {
  const { db, schema = "", close } = await sqlServerHarness(url).open();
  const table = `${schema}.effects`;
  const target = new URL(url);
  const lines: CuttableProxy[] = [];
  /** Functions connect through it, so that the test can close their connections. */
  const throughLine = async () => {
    const line = await startProxy(target.hostname, Number(target.port || 1433));
    lines.push(line);
    const through = new URL(target);
    through.hostname = "127.0.0.1";
    through.port = String(line.port);
    return {
      line,
      env: { ...common, TEST_SCHEMA: schema, TEST_EFFECTS: table, ONCEBOX_DATABASE_URL: through.href },
    };
  };
  const { line: usual, env } = await throughLine();
  await migrate(db, { schema });
  await run(db, `create table ${table} (message nvarchar(200) not null, process int not null)`);
  return {
    ...readers(db, table),
    kind: "sqlserver",
    env,
    inbox: createInbox(db, { schema }),
    async away() {
      const { line, env } = await throughLine();
      await line.cut();
      return { env, bringBack: () => line.mend() };
    },
    async dropConnections() {
      await usual.cut();
      await usual.mend();
    },
    async close() {
      await Promise.all(lines.map((line) => line.cut()));
      await close();
    },
  };
}

export async function sqliteForFunctions(): Promise<FunctionsDatabase> {
  const folder = await mkdtemp(join(tmpdir(), "oncebox-lambda-db-"));
  const open = async (file: string) => {
    const db = openSqlite({ file });
    await migrate(db);
    await run(db, "create table effects (message text not null, process int not null)");
    return db;
  };
  const db = await open(join(folder, "app.db"));
  const env = { ...common, ONCEBOX_DATABASE_URL: `sqlite:${join(folder, "app.db")}` };
  return {
    ...readers(db, "effects"),
    kind: "sqlite",
    env,
    inbox: createInbox(db),
    async away() {
      const later = join(folder, "later");
      return {
        env: { ...env, ONCEBOX_DATABASE_URL: `sqlite:${join(later, "app.db")}` },
        async bringBack() {
          await mkdir(later);
          await (await open(join(later, "app.db"))).close();
        },
      };
    },
    dropConnections: async () => {}, // SQLite has no connections
    async close() {
      await db.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

const readers = (db: Database, table: string): Pick<FunctionsDatabase, "db" | "effects"> => ({
  db,
  async effects() {
    const rows = await db.driver.query(
      statement("effects", `select message from ${table} order by message`),
      {},
    );
    return rows.map((row) => row.message as string);
  },
});

async function run(db: Database, sql: string): Promise<void> {
  await db.driver.query({ name: "test", text: sql, unprepared: true }, {});
}
