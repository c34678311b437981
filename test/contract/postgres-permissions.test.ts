import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { createInbox } from "../../src/inbox/inbox.js";
import { createOutbox } from "../../src/outbox/outbox.js";
import { newOwnerToken } from "../../src/queue/leases.js";
import type { Database } from "../../src/sql/dialect.js";
import { migrate } from "../../src/sql/migrate.js";
import { attemptsTable, controlsTable, doneTable } from "../../src/sql/postgres/expressions.js";
import { openPostgres } from "../../src/sql/postgres/index.js";
import { postgresHarness } from "../support/postgres-harness.js";
import { type TestDatabase, testClock } from "./harness.js";

const url = inject("postgresUrl");
const day = 86_400_000;

/** A login role that is granted rights on one queue's tables and nothing else. */
async function loginRole(
  admin: TestDatabase,
  kind: "inbox" | "outbox",
  rights: { readonly message: string; readonly state: string; readonly done: string },
  table: string = kind,
) {
  const role = `oncebox_${randomUUID().slice(0, 8)}`;
  const password = randomUUID();
  const names = admin.db.dialect.names(kind, admin.schema!, table);
  await admin.raw(`create role ${role} login password '${password}'`);
  await admin.raw(`grant usage on schema "${admin.schema}" to ${role}`);
  await admin.raw(`grant ${rights.message} on ${names.message} to ${role}`);
  await admin.raw(`grant ${rights.state} on ${names.state} to ${role}`);
  await admin.raw(`grant ${rights.done} on ${doneTable(names)} to ${role}`);
  await admin.raw(`grant select, insert, delete on ${attemptsTable(names)} to ${role}`);
  await admin.raw(`grant select, update, delete on ${controlsTable(names)} to ${role}`);
  const { hostname: host, port, pathname } = new URL(url);
  const config = { host, port: Number(port || 5432), database: pathname.slice(1), user: role, password };
  const db = openPostgres({ config, maxConnections: 2 });
  return {
    db,
    role,
    async drop() {
      await db.close();
      await admin.raw(`drop owned by ${role}`);
      await admin.raw(`drop role ${role}`);
    },
  };
}

const everyday = {
  message: "select, insert, update",
  state: "select, insert, update, delete",
  done: "select, insert",
};
const withPurge = { ...everyday, message: `${everyday.message}, delete`, done: `${everyday.done}, delete` };

const run = (db: Database, sql: string) => db.driver.query({ name: "raw", text: sql, unprepared: true }, {});

describe("inbox and outbox on PostgreSQL with a role that may only read and write the tables", () => {
  let admin: TestDatabase;

  beforeAll(async () => {
    admin = await postgresHarness(url).open();
    await migrate(admin.db, { schema: admin.schema! });
  });

  afterAll(async () => {
    await admin?.close();
  });

  it("IBX-126 a whole cycle of an inbox runs with rights on its five tables only", async () => {
    const { db, drop } = await loginRole(admin, "inbox", withPurge);
    try {
      const [user] = await run(
        db,
        "select current_user as name, usesuper from pg_user where usename = current_user",
      );
      expect(user).toMatchObject({ name: expect.stringMatching(/^oncebox_/), usesuper: false });
      await expect(run(db, `create table "${admin.schema}".more (n int)`)).rejects.toMatchObject({
        code: "42501",
      });

      const clock = testClock();
      const inbox = createInbox(db, { schema: admin.schema!, clock });
      await inbox.init();
      const owner = newOwnerToken();
      const message = (messageId: string) => ({ source: "s", messageId, topic: "t", payload: "{}" });
      expect(await inbox.receive(message("0"))).toBe("enqueued");
      const expiresAt = new Date(clock().getTime() + day);
      await inbox.enqueue(["1", "2", "3", "4", "5"].map((id) => ({ ...message(id), expiresAt })));
      expect(await inbox.receive(message("0"))).toBe("duplicate");
      expect(await inbox.alreadyProcessed({ source: "s", messageId: "seen" })).toBe(false);
      await inbox.markProcessing({ source: "s", messageId: "seen" });
      await inbox.markProcessed({ source: "s", messageId: "seen" });
      await inbox.markDead({ source: "s", messageId: "buried" }, "by hand");

      const claimed = await inbox.claim({ owner });
      expect(claimed).toHaveLength(6);
      expect((await inbox.renew(owner, claimed, 60_000)).changed).toHaveLength(6);
      await inbox.ack(owner, [{ source: "s", messageId: "0" }]);
      await inbox.transaction((tx) => inbox.ack(owner, [claimed[1]!], { tx }));
      await inbox.abandon(owner, [claimed[2]!], { error: "503" });
      await inbox.fail(owner, [claimed[3]!], "410");
      await inbox.release(owner, [claimed[4]!]);
      clock.advance(120_000);
      expect((await inbox.reapExpired()).reaped).toBe(1);
      expect((await inbox.replay([claimed[3]!])).changed).toHaveLength(1);
      expect(await inbox.get(claimed[2]!)).toMatchObject({ attempt: 1 });
      expect((await inbox.list({ state: "Done" })).messages).toHaveLength(3);
      clock.advance(31 * day);
      expect((await inbox.purgeDone()).purged).toBe(3);
      expect((await inbox.stats()).counts).toEqual({ Seen: 0, Processing: 4, Done: 0, Dead: 1 });
      expect((await inbox.reapExpired()).dead).toBe(3);
    } finally {
      await drop();
    }
  });

  it("IBX-126 without the right to delete messages only the purge fails, with the server's permission error", async () => {
    const { db, drop } = await loginRole(admin, "inbox", everyday);
    try {
      const inbox = createInbox(db, { schema: admin.schema! });
      const key = { source: "s", messageId: "no delete" };
      expect(await inbox.receive({ ...key, topic: "t", payload: "" })).toBe("enqueued");
      await inbox.markProcessed(key);
      await expect(inbox.purgeDone()).rejects.toMatchObject({
        code: "ONCEBOX_PERMISSION_DENIED",
        message: expect.stringMatching(/"purge" on the inbox.*permission denied for table/),
        cause: { code: "42501" },
      });
    } finally {
      await drop();
    }
  });

  it("OBX-104 ADD-01 with partition keys the role needs rights on the partition tables, and the error names them", async () => {
    const table = "keyed";
    await migrate(admin.db, { schema: admin.schema!, inbox: false, outbox: table });
    const { db, role, drop } = await loginRole(admin, "outbox", everyday, table);
    try {
      const outbox = createOutbox(db, { schema: admin.schema!, table });
      const owner = newOwnerToken();
      const messages = ["1", "2", "3"].map((payload) => ({ topic: "t", payload, partitionKey: "k" }));
      await expect(outbox.enqueue(messages)).rejects.toThrow(
        /Permission denied.*The server says: permission denied for table keyed_/,
      );

      const names = admin.db.dialect.names("outbox", admin.schema!, table);
      for (const table of ["_partition_lock", "_partition_queue", "_pending_arrivals"])
        await admin.raw(`grant select, insert, update, delete on ${names.object(table)} to ${role}`);
      await outbox.enqueue(messages);
      const [first] = await outbox.claim({ owner });
      await outbox.ack(owner, [first!]);
      const [second] = await outbox.claim({ owner });
      await outbox.fail(owner, [second!], "410");
      const [third] = await outbox.claim({ owner });
      await outbox.replay([second!]);
      await outbox.ack(owner, [third!]);
      const [again] = await outbox.claim({ owner });
      expect(again).toMatchObject({ payload: "2", partitionKey: "k" });
      await outbox.ack(owner, [again!]);
    } finally {
      await drop();
    }
  });

  it("OBX-104 a whole cycle of an outbox runs with rights on its five tables only", async () => {
    const { db, drop } = await loginRole(admin, "outbox", withPurge);
    try {
      const clock = testClock();
      const outbox = createOutbox(db, { schema: admin.schema!, clock });
      await outbox.init();
      const owner = newOwnerToken();
      await outbox.enqueue({ topic: "t", payload: "0" });
      await outbox.enqueue(["1", "2", "3", "4"].map((payload) => ({ topic: "t", payload })));
      await outbox.transaction((tx) => outbox.enqueue({ topic: "t", payload: "5" }, { tx }));
      const claimed = await outbox.claim({ owner });
      expect(claimed).toHaveLength(6);
      expect((await outbox.renew(owner, claimed, 60_000)).changed).toHaveLength(6);
      await outbox.ack(owner, [{ id: claimed[0]!.id }, claimed[1]!]);
      await outbox.abandon(owner, [claimed[2]!], { error: "503" });
      await outbox.fail(owner, [claimed[3]!], "410");
      await outbox.release(owner, [claimed[4]!]);
      clock.advance(120_000);
      expect((await outbox.reapExpired()).reaped).toBe(1);
      expect((await outbox.replay([claimed[3]!])).changed).toHaveLength(1);
      expect(await outbox.get(claimed[2]!)).toMatchObject({ attempt: 1 });
      clock.advance(31 * day);
      expect((await outbox.purgeDone()).purged).toBe(2);
      expect((await outbox.stats()).counts).toEqual({ Ready: 4, InProgress: 0, Done: 0, Failed: 0 });
    } finally {
      await drop();
    }
  });
});
