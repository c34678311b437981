import { randomUUID } from "node:crypto";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import {
  createInbox,
  createOutbox,
  createWorker,
  InvalidOperationError,
  migrate,
  newOwnerToken,
} from "../../src/index.js";
import type { Database } from "../../src/sql/dialect.js";
import { openPostgres } from "../../src/sql/postgres/index.js";
import { gate } from "../contract/support/gate.js";
import { startProxy } from "../support/cuttable-proxy.js";
import { silentServer } from "../support/many-tenants.js";

const url = inject("postgresUrl");
const schema = `deadlines_${randomUUID().slice(0, 8)}`;
let admin: pg.Client;

beforeAll(async () => {
  admin = new pg.Client(url);
  await admin.connect();
  await admin.query(`create schema ${schema}`);
  await admin.query(`create table ${schema}.work (id int)`);
});
afterAll(async () => {
  await admin.query(`drop schema ${schema} cascade`);
  await admin.end();
});

/** Generous: what these tests show is that it ends. */
const longMs = 15_000;
const query = (db: Database, text: string, signal?: AbortSignal) =>
  db.driver.query({ name: "test", text, unprepared: true }, {}, { signal });
const named = (application: string, from = url): URL => {
  const changed = new URL(from);
  changed.searchParams.set("application_name", application);
  return changed;
};
const sessions = async (application: string, more = "true"): Promise<number> => {
  const { rows } = await admin.query(
    `select count(*)::int as count from pg_stat_activity where application_name = $1 and ${more}`,
    [application],
  );
  return rows[0].count;
};
const throughProxy = async (application: string) => {
  const { hostname, port } = new URL(url);
  const proxy = await startProxy(hostname, Number(port));
  const proxied = named(application);
  proxied.host = `127.0.0.1:${proxy.port}`;
  return { proxy, db: openPostgres({ url: proxied.href, maxConnections: 2 }) };
};

describe("a PostgreSQL statement that is given up", () => {
  it("ADD-09 is cancelled where an extension has a second pg_cancel_backend, and is not committed later", async () => {
    await admin.query(
      `create function ${schema}.pg_cancel_backend(bigint) returns boolean language sql as 'select false'`,
    );
    const application = `given_up_${randomUUID().slice(0, 8)}`;
    const withSecond = named(application);
    withSecond.searchParams.set("options", `-c search_path=${schema}`);
    const db = openPostgres({ url: withSecond.href });
    const blocker = new pg.Client(url);
    await blocker.connect();
    await blocker.query("begin");
    await blocker.query(`lock table ${schema}.work in access exclusive mode`);
    const giveUp = new AbortController();
    const writing = query(db, "insert into work values (1)", giveUp.signal);
    const isWaiting = "wait_event_type = 'Lock'";
    await expect.poll(() => sessions(application, isWaiting), { timeout: longMs }).toBe(1);
    giveUp.abort(new Error("given up"));
    await expect(writing).rejects.toThrow("given up");
    await expect.poll(() => sessions(application, isWaiting), { timeout: longMs }).toBe(0);
    await blocker.query("commit");
    await blocker.end();
    await db.close();
    expect((await admin.query(`select * from ${schema}.work`)).rows).toEqual([]);
  });

  it("ADD-09 is cancelled over a connection of its own after all of the pool's froze, and the pool closes", async () => {
    const application = `frozen_${randomUUID().slice(0, 8)}`;
    const { proxy, db } = await throughProxy(application);
    await Promise.all([query(db, "select pg_sleep(0.1)"), query(db, "select pg_sleep(0.1)")]);
    const giveUp = new AbortController();
    const hanging = query(db, "select pg_sleep(600)", giveUp.signal);
    const isSleeping = "state = 'active' and query like '%pg_sleep(600)%'";
    await expect.poll(() => sessions(application, isSleeping), { timeout: longMs }).toBe(1);
    proxy.freezeOpen(); // the other one is idle in the pool
    giveUp.abort(new Error("given up"));
    await expect(hanging).rejects.toThrow("given up");
    await expect.poll(() => sessions(application, isSleeping), { timeout: longMs }).toBe(0);
    await db.close();
    await proxy.cut();
  }, 40_000);

  it("ADD-09 does not keep a pool from closing when the server says nothing any more", async () => {
    const { proxy, db } = await throughProxy("silent");
    await Promise.all([query(db, "select pg_sleep(0.1)"), query(db, "select pg_sleep(0.1)")]);
    proxy.muteAnswers();
    const giveUp = new AbortController();
    const first = query(db, "select 1", giveUp.signal);
    giveUp.abort(new Error("given up"));
    await expect(first).rejects.toThrow("given up");
    const withoutSignal = expect(query(db, "select 1")).rejects.toThrow();
    await db.close();
    await withoutSignal;
    await proxy.cut();
  }, 30_000);

  it("ADD-09 destroys the connection that is being made for it, and those that no call gave up end with the pool", async () => {
    const silent = await silentServer();
    const db = openPostgres({ url: silent.url, maxConnections: 2 });
    const giveUp = new AbortController();
    const calls = [1, 2, 3].map(() => query(db, "select 1", giveUp.signal));
    await expect.poll(() => silent.open(), { timeout: longMs }).toBe(2);
    giveUp.abort(new Error("given up"));
    for (const call of calls) await expect(call).rejects.toThrow("given up");
    await expect.poll(() => silent.open(), { timeout: longMs, interval: 20 }).toBe(0);
    expect(silent.accepted()).toBe(2); // none was made for the call that waited
    const withoutSignal = expect(query(db, "select 1")).rejects.toThrow();
    await expect.poll(() => silent.open(), { timeout: longMs }).toBe(1);
    await db.close();
    await withoutSignal;
    await expect.poll(() => silent.open(), { timeout: longMs }).toBe(0);
    await silent.stop();
  }, 30_000);
});

describe("a worker on PostgreSQL", () => {
  it("ADD-04 ADD-09 goes on after all of its connections froze: its claims have a deadline", async () => {
    const { proxy, db } = await throughProxy("worker");
    const direct = openPostgres({ url });
    await migrate(direct, { schema });
    const sender = createOutbox(direct, { schema });
    const [first, second] = [gate(), gate()];
    const worker = createWorker({
      leaseMs: 500,
      settleTimeoutMs: 500,
      handlers: { first: () => first.open(), second: () => second.open() },
      store: createOutbox(db, { schema }),
      pollMs: 20,
    });
    await sender.enqueue({ topic: "first", payload: "" });
    await first.promise;
    proxy.freezeOpen();
    await sender.enqueue({ topic: "second", payload: "" });
    await second.promise; // without a deadline it would never be claimed
    await worker.stop();
    await Promise.all([db.close(), direct.close()]);
    await proxy.cut();
  }, 40_000);
});

describe("row numbers beyond 2^53", () => {
  it("IBX-014 OBX-003 are refused, and never rounded to the number of a neighbour", async () => {
    const db = openPostgres({ url });
    await migrate(db, { schema });
    const [inbox, outbox] = [createInbox(db, { schema }), createOutbox(db, { schema })];
    for (const table of ["inbox_messages", "outbox_messages"]) {
      const { rows } = await admin.query("select pg_get_serial_sequence($1, 'seq') as name", [
        `${schema}.${table}`,
      ]);
      await admin.query("select setval($1, $2)", [rows[0].name, String(2n ** 53n)]);
    }
    const key = { source: "s", messageId: "1" };
    await inbox.receive({ ...key, topic: "t", payload: "" });
    await inbox.receive({ ...key, messageId: "2", topic: "t", payload: "" });
    const [id] = await outbox.enqueue([{ topic: "t", payload: "" }]);
    const owner = newOwnerToken();
    await expect(inbox.get(key)).rejects.toThrow(InvalidOperationError);
    await expect(inbox.claim({ owner })).rejects.toThrow(/9007199254740993/);
    await expect(inbox.ack(owner, [key])).rejects.toThrow(/2\^53/);
    await expect(outbox.list()).rejects.toThrow(InvalidOperationError);
    await expect(outbox.replay([{ id: String(id) }])).rejects.toThrow(InvalidOperationError);
    expect((await inbox.stats()).counts.Done).toBe(0);
    await db.close();
  });
});
