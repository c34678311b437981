import { expect, it } from "vitest";
import { newOwnerToken } from "../../queue/owner-token.js";
import type { Database } from "../../sql/dialect.js";
import { type SqlDriver, statement } from "../../sql/driver.js";
import type { ContractHarness } from "../harness.js";
import { type Box, isBabelfish, messages, outboxTheme, watched } from "./support.js";

/** The database as a role of PostgreSQL's sees it: every statement in a transaction that takes the role on. */
function asRole(db: Database, role: string): Database {
  const take = { ...statement("role", `set local role ${role}`), unprepared: true };
  return withDriver(db, {
    query: (query, params, options) =>
      db.driver.transaction(async (tx) => {
        await tx.query(take, {});
        return tx.query(query, params);
      }, options),
  });
}

/** The database as a user of SQL Server's sees it: every batch impersonates the user for its own length. */
function asUser(db: Database, user: string): Database {
  return withDriver(db, {
    query: (query, params, options) => {
      const text = `execute as user = '${user}';\n${query.text};\nrevert;`;
      return db.driver.query({ ...query, text }, params, options);
    },
  });
}

const spying = (db: Database, texts: string[]): Database =>
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

/** Everything a running system does to an outbox. */
async function wholeCycle({ on, clock }: Box, db: Database): Promise<void> {
  const outbox = on(db);
  const owner = newOwnerToken();
  await outbox.enqueue({ topic: "t", payload: "single" });
  await outbox.enqueue(messages(5, { expiresAt: new Date(clock().getTime() + 3_600_000) }));
  const claimed = await outbox.claim({ owner });
  expect(claimed).toHaveLength(6);
  await outbox.renew(owner, claimed, 60_000);
  await outbox.ack(owner, [{ id: claimed[0]!.id }]);
  await outbox.abandon(owner, [claimed[1]!], { error: "503" });
  await outbox.fail(owner, [claimed[2]!], "410");
  await outbox.release(owner, [claimed[3]!]);
  clock.advance(120_000);
  expect((await outbox.reapExpired()).reaped).toBe(2);
  await outbox.replay([claimed[2]!]);
  expect((await outbox.list({ state: "Done" })).messages).toHaveLength(1);
  expect(await outbox.get(claimed[1]!)).not.toBeNull();
  clock.advance(31 * 86_400_000);
  expect((await outbox.purgeDone()).purged).toBe(1);
  await outbox.claim({ owner });
  expect((await outbox.stats()).counts.Done).toBe(0);
}

export function securityContract(harness: ContractHarness): void {
  outboxTheme(harness, "permissions", ({ database, box }) => {
    it("OBX-104 OBX-105 a whole cycle runs with select, insert, update and delete (EXECUTE alone on SQL Server; SQLite has no users: there it changes no schema)", async () => {
      const made = await box();
      const { db, schema } = database();
      const { names } = made;
      const user = `oncebox_${newOwnerToken().slice(0, 8)}`;
      if (db.dialect.name === "postgres") {
        await database().raw(`create role ${user} nologin`);
        try {
          await database().raw(`grant usage on schema "${schema}" to ${user}`);
          for (const table of [names.message, names.state, names.object("_done")]) {
            await database().raw(`grant select, insert, update, delete on ${table} to ${user}`);
          }
          await wholeCycle(made, asRole(db, user));
        } finally {
          await database().raw(`drop owned by ${user}`);
          await database().raw(`drop role ${user}`);
        }
        return;
      }
      if (db.dialect.name === "sqlserver") {
        if (await isBabelfish(database())) {
          // it cannot impersonate; that nothing but procedures is called can be seen all the same
          const texts: string[] = [];
          await wholeCycle(made, spying(db, texts));
          for (const text of texts) expect(text).toMatch(/^exec /);
          return;
        }
        await database().raw(`create user [${user}] without login`);
        try {
          await database().raw(`grant execute on schema::[${schema}] to [${user}]`);
          await wholeCycle(made, asUser(db, user));
        } finally {
          await database().raw(`drop user [${user}]`);
        }
        return;
      }
      const version = async () => (await database().raw("pragma schema_version"))[0]!.schema_version;
      const before = await version();
      await wholeCycle(made, db);
      expect(await version()).toBe(before);
    });

    it("OBX-104 no permission on the ledger, and none to change the schema, is needed while running", async () => {
      const made = await box();
      const db = watched(database().db);
      await wholeCycle(made, db);
      expect(db.calls).not.toContain("exclusively");
      expect(db.calls).not.toContain("schema");
      expect(db.calls).not.toContain("migrations applied");
    });
  });
}
