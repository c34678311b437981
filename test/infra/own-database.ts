import { randomUUID } from "node:crypto";
import { inject } from "vitest";
import { type Database, statement } from "../../src/index.js";
import { openPostgres } from "../../src/sql/postgres/index.js";

export interface OwnDatabase {
  readonly url: string;
  readonly name: string;
  /** As the server's administrator. */
  readonly db: Database;
  run(sql: string): Promise<readonly Readonly<Record<string, unknown>>[]>;
  drop(): Promise<void>;
}

export const query = (db: Database, sql: string) => db.driver.query(statement("test", sql), {});

/** A PostgreSQL database of its own, for what uses the names that a deployment uses. */
export async function ownDatabase(serverUrl = inject("postgresUrl")): Promise<OwnDatabase> {
  const name = `infra_${randomUUID().slice(0, 8)}`;
  const server = openPostgres({ url: serverUrl, maxConnections: 1 });
  await query(server, `create database ${name}`);
  const url = new URL(serverUrl);
  url.pathname = `/${name}`;
  const db = openPostgres({ url: url.href, maxConnections: 2 });
  return {
    url: url.href,
    name,
    db,
    run: (sql) => query(db, sql),
    async drop() {
      await db.close();
      await query(server, `drop database ${name} with (force)`);
      await server.close();
    },
  };
}
