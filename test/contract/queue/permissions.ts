import { describe, expect, it } from "vitest";
import { newOwnerToken } from "../../../src/queue/leases.js";
import type { Database } from "../../../src/sql/dialect.js";
import { type SqlDriver, statement } from "../../../src/sql/driver.js";
import { isBabelfish } from "../support/database.js";
import { watched } from "../support/watched.js";
import { messages, type QueueContext, type TestQueue } from "./support.js";

/** The database as a PostgreSQL role sees it: each statement runs in a transaction that takes the role on. */
function asRole(db: Database, role: string): Database {
  const takeRole = { ...statement("role", `set local role ${role}`), unprepared: true };
  return withDriver(db, {
    query: (query, params, options) =>
      db.driver.transaction(async (tx) => {
        await tx.query(takeRole, {});
        return tx.query(query, params);
      }, options),
  });
}

/** The database as a SQL Server user sees it: each batch impersonates the user for its own length. */
function asUser(db: Database, user: string): Database {
  return withDriver(db, {
    query: (query, params, options) => {
      const text = `execute as user = '${user}';\n${query.text};\nrevert;`;
      return db.driver.query({ ...query, text }, params, options);
    },
  });
}

const recordingTexts = (db: Database, texts: string[]): Database =>
  withDriver(db, {
    query: (query, params, options) => {
      texts.push(query.text);
      return db.driver.query(query, params, options);
    },
  });

const withDriver = (db: Database, driver: Pick<SqlDriver, "query">): Database => ({
  ...db,
  driver: { ...db.driver, ...driver },
});

/** Which rights a queue needs while it runs. */
export function permissionTests({ database, queue, keyOf, states }: QueueContext): void {
  const newUser = () => `oncebox_${newOwnerToken().slice(0, 8)}`;

  /** Everything a running system does to a queue. */
  const wholeCycle = async ({ on, clock }: TestQueue, db: Database): Promise<void> => {
    const store = on(db);
    const owner = newOwnerToken();
    await store.addOne({ topic: "t", payload: "single" });
    await store.add(messages(5, { expiresAt: new Date(clock().getTime() + 3_600_000) }));
    const claimed = await store.claim({ owner });
    expect(claimed).toHaveLength(6);
    await store.renew(owner, claimed, 60_000);
    await store.ack(owner, [keyOf(claimed[0]!)]);
    await store.abandon(owner, [claimed[1]!], { error: "503" });
    await store.fail(owner, [claimed[2]!], "410");
    await store.release(owner, [claimed[3]!]);
    clock.advance(120_000);
    expect((await store.reapExpired()).reaped).toBe(2);
    await store.replay([claimed[2]!]);
    expect((await store.list({ state: states.done })).messages).toHaveLength(1);
    expect(await store.get(claimed[1]!)).not.toBeNull();
    clock.advance(31 * 86_400_000);
    expect((await store.purgeDone()).purged).toBe(1);
    expect((await store.purgeDead({ retentionMs: 1 })).purged).toBe(0);
    await store.claim({ owner });
    expect((await store.stats()).counts[states.done]).toBe(0);
  };

  describe("permissions", () => {
    it("IBX-126 OBX-104 a whole cycle runs with select, insert, update and delete on the tables", async (test) => {
      const { db, schema, raw } = database();
      test.skip(db.dialect.name !== "postgres", "needs PostgreSQL's roles");
      const made = await queue();
      const user = newUser();
      await raw(`create role ${user} nologin`);
      try {
        await raw(`grant usage on schema "${schema}" to ${user}`);
        const { message, state, object } = made.names;
        for (const table of [message, state, object("_done"), object("_attempts"), object("_controls")]) {
          await raw(`grant select, insert, update, delete on ${table} to ${user}`);
        }
        await wholeCycle(made, asRole(db, user));
      } finally {
        await raw(`drop owned by ${user}`);
        await raw(`drop role ${user}`);
      }
    });

    it("OBX-105 a whole cycle runs with EXECUTE as its only right", async (test) => {
      const { db, schema, raw } = database();
      test.skip(db.dialect.name !== "sqlserver", "needs SQL Server's users");
      test.skip(await isBabelfish(database()), "Babelfish cannot impersonate");
      const made = await queue();
      const user = newUser();
      await raw(`create user [${user}] without login`);
      try {
        await raw(`grant execute on schema::[${schema}] to [${user}]`);
        await wholeCycle(made, asUser(db, user));
      } finally {
        await raw(`drop user [${user}]`);
      }
    });

    it("OBX-101 OBX-105 every statement of a whole cycle calls a procedure", async (test) => {
      test.skip(database().db.dialect.name !== "sqlserver", "needs SQL Server's procedures");
      const texts: string[] = [];
      await wholeCycle(await queue(), recordingTexts(database().db, texts));
      expect(texts.length).toBeGreaterThan(10);
      for (const text of texts) expect(text).toMatch(/^(declare @bytes [^;]*;\s*)?exec /);
    });

    it("IBX-115 OBX-092 a whole cycle changes no schema", async (test) => {
      test.skip(database().db.dialect.name !== "sqlite", "needs SQLite's schema version");
      const made = await queue();
      const version = async () => (await database().raw("pragma schema_version"))[0]!.schema_version;
      const before = await version();
      await wholeCycle(made, database().db);
      expect(await version()).toBe(before);
    });

    it("IBX-115 OBX-092 a whole cycle uses neither the ledger nor the right to change the schema", async () => {
      const made = await queue();
      const db = watched(database().db);
      await wholeCycle(made, db);
      expect(db.calls.length).toBeGreaterThan(10);
      for (const call of ["exclusively", "schema", "migrations applied"]) {
        expect(db.calls).not.toContain(call);
      }
    });
  });
}
