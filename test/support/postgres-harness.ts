import { randomUUID } from "node:crypto";
import pg from "pg";
import { fromPg, openPostgres } from "../../src/sql/postgres/index.js";
import type { ContractHarness, TestDatabase } from "../contract/harness.js";

export function postgresHarness(url: string): ContractHarness {
  return { name: "PostgreSQL", open: () => open(url) };
}

async function open(url: string): Promise<TestDatabase> {
  const schema = `t_${randomUUID().slice(0, 8)}`;
  const opened = [openPostgres({ url, maxConnections: 10 })];
  const db = opened[0]!;
  const raw = (sql: string) => db.driver.query({ name: "raw", text: sql, unprepared: true }, {});
  return {
    db,
    schema,
    reusesTables: true,
    supports: {
      concurrentWriters: true,
      rowLocks: true,
      visibleLockWaits: true,
      snapshotReads: true,
      severalConnections: true,
    },
    raw,
    reopen() {
      const another = openPostgres({ url, maxConnections: 10 });
      opened.push(another);
      return another;
    },
    async begin(when) {
      const client = new pg.Client(url);
      client.on("error", () => {}); // a test may leave it open
      await client.connect();
      if (when !== "never") await client.query("begin");
      const end = async (how: string) => {
        await client.query(how);
        await client.end();
      };
      return {
        tx: fromPg(client),
        native: client,
        run: async (sql) => {
          await client.query(sql);
        },
        commit: () => end("commit"),
        rollback: () => end("rollback"),
      };
    },
    async close() {
      // A few at a time: everything that one statement drops is locked, and a server has room for some thousand locks.
      const tables = await raw(
        `select format('%I.%I', schemaname, tablename) as name from pg_tables where schemaname = '${schema}'`,
      );
      for (let from = 0; from < tables.length; from += 100) {
        const some = tables.slice(from, from + 100).map((table) => String(table.name));
        await raw(`drop table ${some.join(", ")} cascade`);
      }
      await raw(`drop schema if exists "${schema}" cascade`);
      await Promise.all(opened.map((one) => one.close()));
    },
  };
}
