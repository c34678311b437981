import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createInbox, migrate, newOwnerToken } from "../../src/index.js";
import { loadSqlite } from "../../src/sql/sqlite/client.js";
import { openSqlite } from "../../src/sql/sqlite/index.js";
import { runChild } from "../support/run-child.js";

describe("several processes on one SQLite file", () => {
  let folder: string;
  let file: string;

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "oncebox-processes-"));
    file = join(folder, "shared.db");
  });
  afterEach(() => rm(folder, { recursive: true, force: true }));

  it("IBX-105 IBX-106 OBX-083 four processes drain one inbox while a fifth fills it, each message once", async () => {
    const db = openSqlite({ file });
    await migrate(db);
    const inbox = createInbox(db);
    const batch = (from: number) =>
      Array.from({ length: 500 }, (_, i) => ({
        source: "s",
        messageId: String(from + i),
        topic: "t",
        payload: "x",
      }));
    await inbox.enqueue(batch(0));
    const drained = Promise.all(
      Array.from({ length: 4 }, () => runChild<string[]>("sqlite-drain-child.ts", file)),
    );
    for (let from = 500; from < 3000; from += 500) await inbox.enqueue(batch(from));
    const first = (await drained).flat();
    const rest = await runChild<string[]>("sqlite-drain-child.ts", file);
    const all = [...first, ...rest].map(Number).sort((a, b) => a - b);
    expect(all).toEqual(Array.from({ length: 3000 }, (_, i) => i));
    expect((await inbox.stats()).counts.Done).toBe(3000);
    await db.close();
  });

  it("IBX-116 OBX-093 MID-01 six processes migrate one new file at once, and one of them does the work", async () => {
    const applied = await Promise.all(
      Array.from({ length: 6 }, () => runChild<string[]>("sqlite-migrate-child.ts", file)),
    );
    expect(applied.filter((list) => list.length > 0)).toEqual([["Inbox 1 inbox", "Outbox 1 outbox"]]);
  });

  it("MSG-11 waits for another writer without holding the thread that the other one needs", async () => {
    const db = openSqlite({ file });
    await migrate(db);
    const inbox = createInbox(db);
    const DatabaseSync = await loadSqlite();
    const own = new DatabaseSync(file); // the application's own connection, in this very process
    own.exec("begin immediate");
    const receiving = inbox.receive({ source: "s", messageId: "1", topic: "t", payload: "" });
    await new Promise((resolve) => setTimeout(resolve, 20));
    own.exec("commit");
    expect(await receiving).toBe("enqueued");
    own.close();
    await db.close();
  });

  it("MID-10 a purge of many batches yields to the event loop, and can be aborted", async () => {
    const db = openSqlite({ file });
    await migrate(db);
    let now = Date.UTC(2030, 0, 1);
    const inbox = createInbox(db, { clock: () => new Date(now) });
    for (let from = 0; from < 3000; from += 1000) {
      await inbox.enqueue(
        Array.from({ length: 1000 }, (_, i) => ({
          source: "s",
          messageId: String(from + i),
          topic: "t",
          payload: "x",
        })),
      );
    }
    const owner = newOwnerToken();
    for (;;) {
      const claimed = await inbox.claim({ owner, batchSize: 1000 });
      if (claimed.length === 0) break;
      await inbox.ack(owner, claimed);
    }
    now += 40 * 86_400_000;
    let ticks = 0;
    const ticking = setInterval(() => ticks++, 0);
    const stop = new AbortController();
    setTimeout(() => stop.abort(new Error("enough")), 1);
    await expect(inbox.purgeDone({ batchSize: 1, signal: stop.signal })).rejects.toThrow("enough");
    clearInterval(ticking);
    expect(ticks).toBeGreaterThan(0);
    await db.close();
  });

  it("MSG-11 opens in WAL mode with the recommended pragmas", async () => {
    const db = openSqlite({ file });
    const pragma = async (name: string) =>
      Object.values((await db.driver.query({ name, text: `pragma ${name}` }, {}))[0]!)[0];
    expect(await pragma("journal_mode")).toBe("wal");
    expect(await pragma("synchronous")).toBe(1);
    expect(await pragma("cache_size")).toBe(-8000);
    expect(await pragma("foreign_keys")).toBe(1);
    expect(await pragma("temp_store")).toBe(2);
    expect(await pragma("busy_timeout")).toBe(0); // `whenFree` waits for the 5 s, without blocking the thread
    await db.close();
    const durable = openSqlite({ file, synchronous: "full" });
    const rows = await durable.driver.query({ name: "synchronous", text: "pragma synchronous" }, {});
    expect(rows).toEqual([{ synchronous: 2 }]);
    await durable.close();
  });

  it("MSG-11 a call waits for another writer for a while, and then says that the file is locked", async () => {
    const db = openSqlite({ file });
    await migrate(db);
    const own = new (await loadSqlite())(file);
    own.exec("begin immediate");
    const insert = { name: "insert", text: "create table t (a)" };
    await expect(db.driver.query(insert, {})).rejects.toThrow("database is locked");
    own.exec("commit");
    await db.driver.query(insert, {});
    own.close();
    await db.close();
  });
});
