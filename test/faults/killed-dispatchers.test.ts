import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, inject, it } from "vitest";
import { openSqlite } from "../../src/sql/sqlite/index.js";
import { postgresHarness } from "../support/postgres-harness.js";
import { times } from "../support/times.js";
import { drainUnderFire } from "./killed-dispatchers.js";

const messages = times(2_500);
const kills = messages >= 10_000 ? 12 : 4;

describe("dispatcher processes killed at random", () => {
  it("FUN-05 ADD-11 IBX-105 four of them drain thousands of messages on PostgreSQL: none lost, every repetition explained by a kill", async () => {
    const url = inject("postgresUrl");
    const database = await postgresHarness(url).open();
    await drainUnderFire({
      db: database.db,
      url,
      schema: database.schema,
      messages,
      processes: 4,
      kills,
    });
    await database.close();
  }, 240_000);

  it("FUN-05 ADD-11 IBX-105 four of them drain thousands of messages on a SQLite file: none lost, every repetition explained by a kill", async () => {
    const folder = await mkdtemp(join(tmpdir(), "oncebox-kill-db-"));
    const file = join(folder, "shared.db");
    const db = openSqlite({ file });
    await drainUnderFire({ db, url: file, schema: undefined, messages, processes: 4, kills });
    await db.close();
    await rm(folder, { recursive: true, force: true });
  }, 240_000);

  it("ADD-01 FUN-05 three of them drain 40 partition keys on PostgreSQL: each in order, one at a time, whichever process is killed", async () => {
    const url = inject("postgresUrl");
    const database = await postgresHarness(url).open();
    const { db, schema } = database;
    await drainUnderFire({ db, url, schema, messages: 2_000, processes: 3, kills: 3, keys: 40 });
    await database.close();
  }, 240_000);

  it("ADD-01 FUN-05 three of them drain 40 partition keys on a SQLite file: each in order, one at a time, whichever process is killed", async () => {
    const folder = await mkdtemp(join(tmpdir(), "oncebox-kill-db-"));
    const file = join(folder, "shared.db");
    const db = openSqlite({ file });
    await drainUnderFire({
      db,
      url: file,
      schema: undefined,
      messages: 2_000,
      processes: 3,
      kills: 3,
      keys: 40,
    });
    await db.close();
    await rm(folder, { recursive: true, force: true });
  }, 240_000);
});
