import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { operatorsOf, replayDead } from "../../src/admin/index.js";
import { openJobs } from "../../src/app/jobs.js";
import { readEnvironment } from "../../src/config/environment.js";
import { createSqlInboxStore } from "../../src/inbox-store/sql-inbox-store.js";
import {
  createInbox,
  createOutbox,
  type Database,
  migrate,
  newOwnerToken,
  PermissionDeniedError,
  timeBudget,
} from "../../src/index.js";
import { openPostgres } from "../../src/sql/postgres/index.js";
import { testClock } from "../contract/harness.js";
import { root } from "../support/markdown.js";
import { expectControls, expectInboxService } from "./functions-user.js";
import { type OwnDatabase, ownDatabase, query } from "./own-database.js";

const day = 86_400_000;

describe("the functions' user on PostgreSQL", () => {
  // Roles belong to the whole server, so this one has a name of its own.
  const suffix = randomUUID().slice(0, 8);
  const role = `functions_${suffix}`;
  const operators = `operators_${suffix}`;
  let database: OwnDatabase;
  let url: string;
  let db: Database;

  beforeAll(async () => {
    database = await ownDatabase();
    await migrate(database.db);
    const script = await readFile(join(root, "infra/sql/users-postgres.sql"), "utf8");
    const password = randomUUID();
    for (const _ of ["once", "again"]) {
      await runScript(
        script.replaceAll(
          /oncebox_(functions|operators|receivers|service|producers|messaging)/g,
          `$1_${suffix}`,
        ),
      );
    }
    await database.run(`alter role ${role} password '${password}'`);
    const target = new URL(database.url);
    target.username = role;
    target.password = password;
    url = target.href;
    db = openPostgres({ url, maxConnections: 2 });
  });
  afterAll(async () => {
    await db?.close();
    const others = ["receivers", "service", "producers", "messaging"].map((name) => `${name}_${suffix}`);
    for (const name of [role, operators, ...others]) {
      await database?.run(`drop owned by ${name}`);
      await database?.run(`drop role ${name}`);
    }
    await database?.drop();
  });

  const runScript = (sql: string) =>
    database.db.driver.query({ name: "script", text: sql, unprepared: true }, {});

  it("FUN-10 does all that the functions do: webhook to clean-up", async () => {
    const handled: string[] = [];
    const app = await openJobs(
      {
        handlers: {
          paid: ({ payload, messageId }) => ({
            topic: "receipt",
            payload,
            partitionKey: "p",
            naturalKey: messageId,
          }),
        },
        publishers: { receipt: ({ correlationId }) => void handled.push(correlationId!) },
        retentionMs: 1,
        deadRetentionMs: 86_400_000,
      },
      { environment: await readEnvironment({ ONCEBOX_DATABASE_URL: url, ONCEBOX_LOG_LEVEL: "silent" }) },
    );
    const message = { source: "s", topic: "paid", payload: "{}" };
    expect(await app.inbox.receive({ ...message, messageId: "1" })).toBe("enqueued");
    expect(await app.inbox.receive({ ...message, messageId: "1" })).toBe("duplicate");
    await app.inbox.enqueue(
      ["2", "3"].map((messageId) => ({ ...message, messageId, partitionKey: "customer" })),
    );
    await app.outbox.enqueue([
      { topic: "receipt", payload: "{}", partitionKey: "customer", correlationId: "0" },
    ]);
    expect(await app.dispatch(timeBudget(30_000), { wokenUp: true })).toMatchObject({
      inbox: { acked: 3 },
      outbox: { acked: 4 },
    });
    expect(handled.sort()).toEqual(["0", "1", "2", "3"]);
    expect(await app.reap(timeBudget(30_000))).toMatchObject({ inbox: { done: 0 } });
    await database.run(
      `insert into infra.oncebox_operations (id, started_at, who, action, queue, filter, ended_at)
values (gen_random_uuid(), now() - interval '91 days', 'alice', 'replay', 'inbox:inbox', '{}', now() - interval '91 days')`,
    );
    expect(await app.cleanup(timeBudget(30_000))).toMatchObject({ inbox: { done: 3 }, outbox: { done: 4 } });
    expect(await database.run("select id from infra.oncebox_operations")).toEqual([]);
    await app.close();
  });

  it("FUN-10 can also settle by hand, replay, mark and count", async () => {
    const clock = testClock();
    const owner = newOwnerToken();
    const [inbox, outbox] = [createInbox(db, { clock }), createOutbox(db, { clock })];
    const incoming = (messageId: string) => ({ source: "hand", messageId, topic: "t", payload: "{}" });
    await inbox.enqueue(["a", "b", "c"].map((id) => ({ ...incoming(id), partitionKey: "k" })));
    await inbox.enqueue(["1", "2", "3", "4"].map(incoming));
    await outbox.enqueue(["1", "2", "3"].map((payload) => ({ topic: "t", payload })));
    await inbox.markProcessing({ source: "hand", messageId: "seen" });
    await inbox.markProcessed({ source: "hand", messageId: "seen" });
    await inbox.markDead({ source: "hand", messageId: "buried" }, "by hand");
    const claimed = await inbox.claim({ owner });
    expect(claimed.map(({ messageId }) => messageId).sort()).toEqual(["1", "2", "3", "4", "a"]);
    await inbox.renew(owner, claimed, 60_000);
    await inbox.abandon(owner, [claimed[0]!], { error: "503" });
    await inbox.fail(owner, [claimed[1]!], "410");
    await inbox.release(owner, [claimed[2]!]);
    clock.advance(120_000);
    expect((await inbox.reapExpired()).reaped).toBe(2);
    expect((await inbox.replay([claimed[1]!])).changed).toHaveLength(1);
    expect((await inbox.list({ state: "Dead" })).messages).toHaveLength(1);
    const out = await outbox.claim({ owner });
    await outbox.ack(owner, [out[0]!]);
    await outbox.fail(owner, [out[1]!], "410");
    await outbox.replay([out[1]!]);
    clock.advance(31 * day);
    expect((await outbox.purgeDone()).purged).toBe(1);
    expect((await inbox.stats()).counts.Dead).toBe(1);
  });

  it("FUN-10 SVC-08 SVC-10 does all that the inbox service does: lease, mark, release, report, clean up", async () => {
    const clock = testClock();
    await expectInboxService(createSqlInboxStore(db, { clock }), clock);
  });

  it("FUN-10 can do nothing else", async () => {
    const [{ usesuper, usecreatedb }] = (await query(
      db,
      "select usesuper, usecreatedb from pg_user where usename = current_user",
    )) as [{ usesuper: boolean; usecreatedb: boolean }];
    expect({ usesuper, usecreatedb }).toEqual({ usesuper: false, usecreatedb: false });
    await database.run("create table public.customers (id int)");
    for (const sql of [
      "create table infra.more (n int)",
      "create table public.more (n int)",
      "drop table infra.inbox_messages",
      "truncate infra.inbox_state",
      "alter table infra.inbox_messages add column more int",
      "update infra.inbox_done set seq = seq",
      "select * from infra.oncebox_migrations",
      "select who from infra.oncebox_operations",
      "update infra.oncebox_operations set ended_at = null",
      "insert into infra.oncebox_operations (id) values (null)",
      "select * from public.customers",
      "create role another",
    ]) {
      await expect(query(db, sql), sql).rejects.toMatchObject({ code: "42501" });
    }
  });

  it("FUN-10 has rights on every table of both queues and on no other", async () => {
    const tables = await database.run("select tablename from pg_tables where schemaname = 'infra'");
    const granted = await database.run(
      `select distinct table_name from information_schema.role_table_grants where grantee = '${role}'`,
    );
    const names = (rows: readonly Readonly<Record<string, unknown>>[]) =>
      rows.map((row) => String(Object.values(row)[0])).sort();
    const ofOperators = /^oncebox_migrations$|_archive$/; // it deletes old records of operations
    expect(names(granted)).toEqual(names(tables).filter((name) => !ofOperators.test(name)));
  });

  it("ADD-02 ADD-17 leaves discarding, replaying by filter and pausing to operators, whose role may do it and nothing else", async () => {
    const inbox = createInbox(db);
    const keys = ["1", "2", "3", "4", "5"].map((messageId) => ({ source: "dead", messageId }));
    await inbox.enqueue(
      keys.map((key, index) => ({ ...key, topic: "t", payload: "{", partitionKey: index < 2 ? "k" : null })),
    );
    for (const key of keys) await inbox.markDead(key, "410");
    const by = { by: "alice" };
    await expect(operatorsOf(inbox).discard(keys, by)).rejects.toBeInstanceOf(PermissionDeniedError);
    await expect(operatorsOf(inbox).archive(keys, by)).rejects.toBeInstanceOf(PermissionDeniedError);
    await expect(operatorsOf(inbox).replay(keys, by)).rejects.toBeInstanceOf(PermissionDeniedError);
    await expect(replayDead(operatorsOf(inbox), {}, by)).rejects.toBeInstanceOf(PermissionDeniedError);
    expect(await operatorsOf(inbox).countDead({ source: "dead" })).toBe(5);
    const [lately] = (await operatorsOf(inbox).activity({ sinceMs: 60_000, buckets: 1 })).buckets;
    expect(lately!.dead).toBeGreaterThanOrEqual(5);
    expect((await operatorsOf(inbox).blockedPartitions()).filter(({ reason }) => reason === "dead")).toEqual(
      [],
    );
    expect(await operatorsOf(inbox).byCorrelation("1")).toContainEqual(
      expect.objectContaining({ key: keys[0] }),
    );

    await database.run(`create role ${operators}_alice login password 'alice' in role ${operators}`);
    const target = new URL(database.url);
    target.username = `${operators}_alice`;
    target.password = "alice";
    const own = openPostgres({ url: target.href, maxConnections: 2 });
    try {
      const operated = createInbox(own);
      expect((await operatorsOf(operated).discard([keys[0]!], by)).changed).toHaveLength(1);
      expect((await operatorsOf(operated).archive([keys[4]!], by)).changed).toHaveLength(1);
      expect((await operatorsOf(operated).activity()).truncated).toBe(false);
      expect(
        (await operatorsOf(operated).blockedPartitions()).filter(({ reason }) => reason === "dead"),
      ).toEqual([]);
      expect(await operatorsOf(operated).byCorrelation("2")).toContainEqual(
        expect.objectContaining({ key: keys[1] }),
      );
      expect(await operatorsOf(operated).deadGroups({ source: "dead" })).toMatchObject([{ count: 3 }]);
      await operatorsOf(operated).editAndReplay(keys[1]!, { payload: "{}" }, by);
      expect(await replayDead(operatorsOf(operated), { source: "dead" }, by)).toMatchObject({ done: 2 });
      expect(await operatorsOf(operated).operations()).toHaveLength(4);
      await expectControls(createOutbox(db), createOutbox(own));
      await expect(operatorsOf(inbox).pause("all", by)).rejects.toBeInstanceOf(PermissionDeniedError);
      for (const sql of [
        "drop table infra.inbox_messages",
        "delete from infra.oncebox_operations",
        "delete from infra.inbox_done",
        "delete from infra.inbox_archive",
      ]) {
        await expect(query(own, sql), sql).rejects.toMatchObject({ code: "42501" });
      }
    } finally {
      await own.close();
      await database.run(`drop role ${operators}_alice`);
    }
  });
});
