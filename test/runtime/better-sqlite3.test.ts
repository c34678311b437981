import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createOutbox, migrate } from "../../src/index.js";
import { fromSqlite, openSqlite, type SqliteTransactionConnection } from "../../src/sql/sqlite/index.js";

interface BetterSqlite extends SqliteTransactionConnection {
  exec(sql: string): void;
  close(): void;
}

// Not a dependency of the tests: it compiles where its prebuilt file cannot be downloaded.
const name: string = "better-sqlite3";
const BetterSqlite = await import(name).then(
  (module) => (module as { default: new (file: string) => BetterSqlite }).default,
  () => undefined,
);

describe.skipIf(BetterSqlite === undefined)(
  "better-sqlite3 (needs npm install --no-save better-sqlite3@12)",
  () => {
    it("OBX-003 ADD-06 enqueues in a transaction of the caller's: with it, or not at all", async () => {
      const folder = await mkdtemp(join(tmpdir(), "oncebox-better-"));
      const file = join(folder, "app.db");
      const db = openSqlite({ file });
      await migrate(db);
      const outbox = createOutbox(db);
      const own = new BetterSqlite!(file);
      try {
        await expect(outbox.enqueue({ topic: "t", payload: "" }, { tx: fromSqlite(own) })).rejects.toThrow(
          "no transaction",
        );
        own.exec("begin");
        await outbox.enqueue({ topic: "t", payload: "rolled back" }, { tx: fromSqlite(own) });
        own.exec("rollback");
        own.exec("begin");
        await outbox.enqueue(
          [
            { topic: "t", payload: "1" },
            { topic: "t", payload: "2" },
          ],
          { tx: fromSqlite(own) },
        );
        await outbox.enqueue({ topic: "t", payload: "3" }, { tx: fromSqlite(own) });
        own.exec("commit");
        expect((await outbox.list()).messages.map((message) => message.payload)).toEqual(["1", "2", "3"]);
      } finally {
        own.close();
        await db.close();
        await rm(folder, { recursive: true, force: true });
      }
    });
  },
);
