import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createInbox, createOutbox, migrate } from "../../src/index.js";
import { loadSqlite, type SqliteHandle } from "../../src/sql/sqlite/client.js";
import { fromSqlite, openSqlite } from "../../src/sql/sqlite/index.js";

type WithBigInts = new (file: string, options: { readonly readBigInts: boolean }) => SqliteHandle;

describe("a caller's connection to SQLite that returns integers as BigInts", () => {
  it("IBX-014 OBX-003 gives the same results as any other", async () => {
    const folder = await mkdtemp(join(tmpdir(), "oncebox-bigint-"));
    const file = join(folder, "app.db");
    const db = openSqlite({ file });
    await migrate(db);
    const [inbox, outbox] = [createInbox(db), createOutbox(db)];
    const own = new ((await loadSqlite()) as unknown as WithBigInts)(file, { readBigInts: true });
    try {
      expect(own.prepare("select 1 as one").all()).toMatchObject([{ one: 1n }]);
      const tx = fromSqlite(own);
      const key = { source: "s", messageId: "1" };
      const message = { ...key, topic: "t", payload: "" };
      own.exec("begin immediate");
      expect(await inbox.receive(message, { tx })).toBe("enqueued");
      expect(await inbox.enqueue([message, { ...message, messageId: "2" }], { tx })).toEqual([
        "duplicate",
        "enqueued",
      ]);
      expect(await inbox.markProcessed(key, { tx })).toBe(true);
      expect(await inbox.alreadyProcessed(key, null, { tx })).toBe(true);
      await outbox.enqueue([{ topic: "t", payload: "" }], { tx });
      own.exec("commit");
      expect((await inbox.stats()).counts).toMatchObject({ Processing: 1, Done: 1 });
      expect((await outbox.stats()).due).toBe(1);
    } finally {
      own.close();
      await db.close();
      await rm(folder, { recursive: true, force: true });
    }
  });
});
