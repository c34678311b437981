import { randomUUID } from "node:crypto";
import { copyFile, mkdtemp, rm } from "node:fs/promises";
import { createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import type { Tenant } from "../../src/app/tenants.js";
import { migrate } from "../../src/index.js";
import { openPostgres } from "../../src/sql/postgres/index.js";
import { openSqlite } from "../../src/sql/sqlite/index.js";
import { startPostgres } from "./start-postgres.js";

/** SQLite files, each a copy of a migrated one. */
export async function sqliteTenants(count: number) {
  const folder = await mkdtemp(join(tmpdir(), "oncebox-tenants-"));
  const template = join(folder, "template.db");
  const db = openSqlite({ file: template });
  await migrate(db);
  await db.driver.query({ name: "checkpoint", text: "pragma wal_checkpoint (truncate)" }, {});
  await db.close();
  const tenants: Tenant[] = [];
  for (let index = 0; index < count; index++) {
    const file = join(folder, `s${index}.db`);
    await copyFile(template, file);
    tenants.push({ id: `s${index}`, database: `sqlite:${file}` });
  }
  return { tenants, remove: () => rm(folder, { recursive: true, force: true }) };
}

export interface PostgresTenants {
  readonly tenants: readonly Tenant[];
  /** The number of connections to these databases, as the server counts them. */
  connections(): Promise<number>;
  remove(): Promise<void>;
}

/**
 * Databases on a server of their own, each a copy of a migrated one, and a user to whom the server refuses more
 * connections than the limit.
 */
export async function postgresTenants(count: number, connectionLimit: number): Promise<PostgresTenants> {
  const server = await startPostgres(["fsync=off"]);
  const serverUrl = server.url;
  const prefix = `many_${randomUUID().slice(0, 8)}`;
  const admin = new pg.Client(serverUrl);
  await admin.connect();
  const urlOf = (database: string) => {
    const url = new URL(serverUrl);
    url.pathname = `/${database}`;
    url.username = prefix;
    url.password = prefix;
    return url.href;
  };
  await admin.query(`create role ${prefix} login password '${prefix}' connection limit ${connectionLimit}`);
  await admin.query(`create database ${prefix}_template owner ${prefix}`);
  const db = openPostgres({ url: urlOf(`${prefix}_template`), maxConnections: 1 });
  await migrate(db);
  await db.close();
  const tenants: Tenant[] = [];
  for (let index = 0; index < count; index++) {
    const name = `${prefix}_${index}`;
    await admin.query(`create database ${name} template ${prefix}_template owner ${prefix}`);
    tenants.push({ id: `p${index}`, database: urlOf(name) });
  }
  const drop = async (): Promise<void> => {
    const names = [`${prefix}_template`, ...tenants.map((_, index) => `${prefix}_${index}`)];
    for (const name of names) await admin.query(`drop database ${name} with (force)`);
    await admin.query(`drop role ${prefix}`);
  };
  return {
    tenants,
    async connections() {
      const { rows } = await admin.query(
        "select count(*)::int as count from pg_stat_activity where usename = $1",
        [prefix],
      );
      return rows[0].count;
    },
    async remove() {
      if (process.env.ONCEBOX_TEST_POSTGRES_URL) await drop(); // otherwise they go with their server
      await admin.end();
      await server.stop();
    },
  };
}

/** A server that accepts connections and never answers. */
export async function silentServer() {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.resume(); // otherwise it would not notice that the client closes
    socket.on("error", () => {});
    socket.on("close", () => sockets.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  let accepted = 0;
  server.on("connection", () => accepted++);
  return {
    url: `postgres://user@127.0.0.1:${port}/silent`,
    accepted: () => accepted,
    open: () => sockets.size,
    async stop() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** A port without a listener. */
export async function deadUrl(): Promise<string> {
  const server = await silentServer();
  await server.stop();
  return server.url;
}
