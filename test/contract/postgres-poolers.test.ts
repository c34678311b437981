import { randomUUID } from "node:crypto";
import { Socket } from "node:net";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, inject, it, onTestFinished } from "vitest";
import { examine } from "../../src/cli/doctor.js";
import {
  createOutbox,
  createWorker,
  type Database,
  InvalidArgumentError,
  InvalidOperationError,
  migrate,
} from "../../src/index.js";
import { enableNotify, openPostgres, wakeUpOnNotify } from "../../src/sql/postgres/index.js";
import { findServer, needs } from "../support/servers/find-server.js";
import { pgBouncer } from "../support/start-pgbouncer.js";
import type { StartedServer } from "../support/start-postgres.js";

const url = inject("postgresUrl");
const raw = (text: string) => ({ name: "raw", text, unprepared: true }) as const;

describe("prepare in a URL of PostgreSQL", () => {
  /** The names of the statements that a session has prepared after a query. */
  const preparedBy = async (db: Database): Promise<number> => {
    onTestFinished(() => db.close());
    await db.driver.query({ name: "one", text: "select :value::int as value" }, { value: 1 });
    const [row] = await db.driver.query(raw("select count(*)::int as count from pg_prepared_statements"), {});
    return Number(row!.count);
  };
  const open = (query: string, options = {}) =>
    openPostgres({ url: `${url}${query}`, maxConnections: 1, ...options });

  it("ADD-25 prepare=false prepares no statement under a name, as the option does", async () => {
    expect(await preparedBy(open(""))).toBe(1);
    expect(await preparedBy(open("?prepare=true"))).toBe(1);
    expect(await preparedBy(open("?prepare=false"))).toBe(0);
    expect(await preparedBy(open("", { prepare: false }))).toBe(0);
    expect(await preparedBy(open("?prepare=false", { prepare: false }))).toBe(0);
  });

  it("ADD-25 refuses another value, a repetition, and an option that says otherwise", () => {
    for (const query of ["?prepare=no", "?prepare=", "?prepare=false&prepare=false"])
      expect(() => open(query)).toThrow(InvalidArgumentError);
    expect(() => open("?prepare=false", { prepare: true })).toThrow(InvalidArgumentError);
  });
});

describe("the address of a pooler", () => {
  /** A socket to the tests' server, whatever host it is asked for. */
  class ToTheServer extends Socket {
    // pg calls it with a port and a host
    override connect(): this {
      const { hostname, port } = new URL(url);
      return super.connect({ host: hostname, port: Number(port) });
    }
  }
  const { username, password, pathname } = new URL(url);
  const credentials = { user: username, password, database: pathname.slice(1) };
  const found = async (host: string, port: number, prepare = true) => {
    const config = { ...credentials, host, port, stream: () => new ToTheServer() };
    const db = openPostgres({ config, prepare });
    onTestFinished(() => db.close());
    return db.wrongConnection!();
  };

  it.each([
    ["orders.proxy-c1abc.eu-central-1.rds.amazonaws.com", 5432],
    ["ep-cool-1-pooler.eu-central-1.aws.neon.tech", 5432],
    ["aws-0-eu-central-1.pooler.supabase.com", 6543],
    ["psql-orders.postgres.database.azure.com", 6432],
  ])(
    "ADD-25 doctor proposes prepare=false at %s:%i, though it sees no shared session",
    async (host, port) => {
      expect(await found(host, port)).toEqual([
        {
          message: `${host}:${port} looks like a pooler in transaction mode, and prepared statements are on.`,
          run: "add ?prepare=false to the URL",
          tolerable: true,
        },
      ]);
      expect(await found(host, port, false)).toEqual([]);
    },
  );

  it.each([
    ["orders.c1abc.eu-central-1.rds.amazonaws.com", 5432],
    ["ep-cool-1.eu-central-1.aws.neon.tech", 5432],
    ["aws-0-eu-central-1.pooler.supabase.com", 5432],
    ["psql-orders.postgres.database.azure.com", 5432],
    ["pooler.example", 6432],
  ])("ADD-25 doctor proposes nothing at %s:%i, which may have sessions of its own", async (host, port) => {
    expect(await found(host, port)).toEqual([]);
  });
});

const pooled = (mode: "transaction" | "session", size: number) => pgBouncer(url, { mode, size });
const start = await findServer(pooled("transaction", 3));
const startSession = await findServer(pooled("session", 10));

describe.skipIf(start === undefined)(`behind PgBouncer (${needs(pooled("transaction", 3))})`, () => {
  let transactions: StartedServer;
  let sessions: StartedServer;
  let direct: Database;
  const schema = `p_${randomUUID().slice(0, 8)}`;

  beforeAll(async () => {
    [transactions, sessions] = await Promise.all([start!(), startSession!()]);
    direct = openPostgres({ url });
    await migrate(direct, { schema });
  });
  afterAll(async () => {
    await direct?.driver.query(raw(`drop schema "${schema}" cascade`), {});
    await direct?.close();
    await Promise.all([transactions?.stop(), sessions?.stop()]);
  });

  const open = (address: string, options = {}): Database => {
    const db = openPostgres({ url: address, ...options });
    onTestFinished(() => db.close());
    return db;
  };

  it("ADD-25 the statements of a transaction run in one session, with more transactions than sessions", async () => {
    const db = open(`${transactions.url}?prepare=false`, { maxConnections: 12 });
    const session = raw("select pg_backend_pid() as pid, txid_current()::text as xid");
    const outbox = createOutbox(db, { schema });
    const pids = await Promise.all(
      Array.from({ length: 40 }, () =>
        db.driver.transaction(async (tx) => {
          const seen = new Set<string>();
          for (let step = 0; step < 4; step++) {
            const [row] = await tx.query(session, {});
            seen.add(`${row!.pid} ${row!.xid}`);
            await outbox.enqueue({ topic: "split", payload: String(step) }, { tx });
          }
          expect(seen.size).toBe(1);
          return [...seen][0]!.split(" ")[0];
        }),
      ),
    );
    expect(new Set(pids).size).toBeLessThanOrEqual(3); // the sessions that the pooler has
    expect((await outbox.stats()).counts.Ready).toBe(160);
  });

  it("ADD-25 with prepared statements a call says to add prepare=false", async () => {
    const dbs = [open(transactions.url), open(transactions.url)];
    const failed = await Promise.allSettled(
      dbs.flatMap((db) => {
        const outbox = createOutbox(db, { schema });
        return Array.from({ length: 20 }, () => outbox.enqueue({ topic: "prepared", payload: "" }));
      }),
    );
    const reasons = failed.flatMap((one) => (one.status === "rejected" ? [one.reason] : []));
    expect(reasons.length).toBeGreaterThan(0);
    for (const reason of reasons) {
      expect(reason).toBeInstanceOf(InvalidOperationError);
      expect(reason.message).toMatch(/prepared statement "oncebox_\w+".*Add \?prepare=false to the URL/);
    }
  });

  it("ADD-25 doctor finds prepared statements behind a pooler in transaction mode, and nothing elsewhere", async () => {
    const settings = async (address: string, options = {}) =>
      (await examine(open(address, options), { tables: { schema } })).filter(
        ({ check }) => check === "settings",
      );
    expect(await settings(transactions.url)).toMatchObject([
      {
        level: "problem",
        message: expect.stringMatching(/^A pooler shares/),
        run: "add ?prepare=false to the URL",
      },
    ]);
    expect(await settings(`${transactions.url}?prepare=false`)).toEqual([]);
    expect(await settings(sessions.url)).toEqual([]);
    expect(await settings(url)).toEqual([]);
    const pool = new pg.Pool({ connectionString: transactions.url });
    onTestFinished(() => pool.end());
    const db = openPostgres({ pool });
    expect(await db.wrongConnection!()).toHaveLength(1);
  });

  it("ADD-25 ADD-09 a listener says that it cannot listen in transaction mode, and listens in session mode", async () => {
    await enableNotify(direct, { kind: "outbox", schema });
    const outbox = createOutbox(direct, { schema });
    const lines: string[] = [];
    const note = (level: string) => (message: string) => void lines.push(`${level} ${message}`);
    const logger = { debug: note("debug"), info: note("info"), warn: note("warn"), error: note("error") };
    const refused = await wakeUpOnNotify({ url: transactions.url, kind: "outbox", schema, logger })(
      () => {},
      new AbortController().signal,
    );
    await expect.poll(() => lines).toEqual(["error cannot listen through a pooler in transaction mode"]);
    await refused();

    const handled: string[] = [];
    const anHour = 3_600_000;
    const worker = createWorker({
      store: outbox,
      handlers: { woken: ({ payload }) => void handled.push(payload), split: () => {}, prepared: () => {} },
      wakeUp: wakeUpOnNotify({ url: sessions.url, kind: "outbox", schema }),
      pollMs: anHour,
      idlePollMs: anHour,
    });
    onTestFinished(() => worker.stop());
    await outbox.enqueue({ topic: "woken", payload: "first" });
    await expect.poll(() => handled).toEqual(["first"]);
    await outbox.enqueue({ topic: "woken", payload: "second" });
    await expect.poll(() => handled).toEqual(["first", "second"]);
  });
});
