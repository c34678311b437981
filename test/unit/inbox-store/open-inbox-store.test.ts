import { describe, expect, it } from "vitest";
import { type InboxStoreSettings, openInboxStore } from "../../../src/inbox-store/open-inbox-store.js";
import { migrate } from "../../../src/sql/migrate.js";
import { openSqlite } from "../../../src/sql/sqlite/index.js";
import { sqliteService } from "../../support/inbox-service/sqlite-service.js";
import { token } from "../../support/inbox-service/start-service.js";

describe("openInboxStore", () => {
  it("SVC-01 opens a store on a database that is open, and leaves it open", async () => {
    const db = openSqlite({ file: ":memory:" });
    await migrate(db);
    const store = await openInboxStore({ kind: "sql", db, source: "billing" });
    await store.markProcessed("k");
    await store.close();
    expect(await (await openInboxStore({ kind: "sql", db, source: "billing" })).isProcessed("k")).toBe(true);
    expect(await (await openInboxStore({ kind: "sql", db })).isProcessed("k")).toBe(false);
    await db.close();
  });

  it("SVC-01 opens a database by its URL, and closes it", async () => {
    const store = await openInboxStore({ kind: "sql", url: "sqlite::memory:", enableSchemaDeployment: true });
    await store.markProcessed("k");
    expect(await store.isProcessed("k")).toBe(true);
    await store.close();
    await expect(store.isProcessed("k")).rejects.toThrow();
  });

  it("SVC-01 SVC-09 opens the client of a service", async () => {
    const service = await sqliteService();
    try {
      const store = await openInboxStore({ kind: "http", url: service.url, token });
      await store.markProcessed("k");
      expect((await service.get("k")).json.status).toBe("Processed");
    } finally {
      await service.close();
    }
  });

  it("SVC-01 SVC-10 makes stores on Redis and MongoDB without a connection", async () => {
    for (const settings of [
      { kind: "redis", url: "redis://127.0.0.1:1" },
      { kind: "mongodb", url: "mongodb://127.0.0.1:1/x" },
    ] as const) {
      const store = await openInboxStore(settings);
      await expect(store.tryBegin("")).rejects.toThrow(/key must be/);
      await store.close();
    }
  });

  it.each<[object, RegExp]>([
    [{}, /kind must be one of sql, redis, mongodb, http/],
    [{ kind: "memcached" }, /kind must be one of/],
    [{ kind: "sql" }, /give url or db/],
    [{ kind: "sql", url: "sqlite::memory:", ttl: 1 }, /unknown option ttl/],
    [{ kind: "redis" }, /give url or client/],
    [{ kind: "redis", url: "redis://h", client: {} }, /give url or client, not both/],
    [{ kind: "mongodb", url: "mongodb://h", retentionMs: 1 }, /retentionMs must be from/],
    [{ kind: "http", url: "h" }, /url must be an http or https URL/],
  ])("SVC-01 refuses %j", async (settings, message) => {
    await expect(openInboxStore(settings as InboxStoreSettings)).rejects.toThrow(message);
  });

  it("SVC-10 a wrong URL is not quoted, for it may have a password", async () => {
    for (const [kind, url] of [
      ["redis", "http://user:secret@h"],
      ["mongodb", "redis://user:secret@h"],
    ] as const) {
      const store = await openInboxStore({ kind, url });
      const error = await store.isProcessed("k").catch((one: Error) => one);
      expect(error).toMatchObject({ code: "ONCEBOX_INVALID_ARGUMENT" });
      expect(String(error)).not.toContain("secret");
    }
  });
});
