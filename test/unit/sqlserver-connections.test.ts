import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { sleep } from "../../src/base/async.js";
import { createOutbox } from "../../src/index.js";
import { type MssqlClientOptions, mssqlClient } from "../../src/sql/sqlserver/client.js";
import { sqlServerDialect } from "../../src/sql/sqlserver/dialect.js";
import { openSqlServer } from "../../src/sql/sqlserver/index.js";
import { startTdsPeer, type TdsPeer } from "../support/tds-peer.js";

const select = { name: "select", text: "select 1 as one" };
const message = { topic: "t", payload: "" };
const caught = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => undefined,
    (error: unknown) => error,
  );

/** With the real driver. What the peer answers is what SQL Server and Azure SQL send. */
describe("connections to SQL Server", () => {
  let peer: TdsPeer;
  let closing: (() => Promise<void>)[] = [];
  const open = (maxConnections = 4) => {
    const db = openSqlServer({
      url: `mssql://app:x@127.0.0.1:${peer.port}/shop?encrypt=false`,
      maxConnections,
    });
    closing.push(() => db.close());
    return db;
  };
  const connect = (options: Pick<MssqlClientOptions, "wait">) => {
    const config = { server: "127.0.0.1", port: peer.port, user: "app", options: { encrypt: false } };
    const driver = mssqlClient({ config, ...options });
    closing.push(() => driver.close());
    return driver;
  };
  beforeEach(async () => {
    peer = await startTdsPeer();
  });
  afterEach(async () => {
    vi.restoreAllMocks();
    for (const close of closing) await close();
    closing = [];
    await peer.close();
  });

  describe("login", () => {
    it.each([
      ...[10936, 42108, 42109, 18401, 921, 976, 983, 3906, 701, 49918], // of servers that start, move or are full
      ...[4060, 10928, 10929, 40197, 40501, 40613], // these tedious repeats itself, and hides the number of the last
    ])("FUN-12 error %i at login is transient: the call connects again, and succeeds", async (number) => {
      peer.failLogins([{ number }]);
      await createOutbox(open()).enqueue(message);
      expect(peer.logins()).toBe(2);
    });

    it.each([18456, 18452, 18487, 40615, 4064])("FUN-12 error %i at login is final", async (number) => {
      peer.failLogins([{ number }]);
      const error = await caught(createOutbox(open()).enqueue(message));
      expect(error).toMatchObject({ name: "ConnectionError", originalError: { number } });
      expect(sqlServerDialect.classify(error)).toBe("permanent");
      expect(peer.logins()).toBe(1);
    });

    it("FUN-12 a later connection's login is classified as the first one's", async () => {
      const db = open();
      await db.driver.query(select, {});
      await db.driver.transaction(async () => {
        peer.failLogins([{ number: 10936 }]);
        await createOutbox(db).enqueue(message);
      });
      expect(peer.logins()).toBe(3);
    });

    it("FUN-12 ADD-09 a cold start logs in once, and each further connection once", async () => {
      const db = open();
      await db.driver.query(select, {});
      await db.driver.query(select, {});
      expect(peer.logins()).toBe(1);
      await Promise.all([1, 2, 3].map(() => db.driver.query(select, {})));
      expect(peer.logins()).toBeLessThanOrEqual(3);
    });

    it("FUN-12 calls at once share the first connection's login", async () => {
      const db = open(2);
      await Promise.all(Array.from({ length: 20 }, () => db.driver.query(select, {})));
      expect(peer.logins()).toBeLessThanOrEqual(2);
      expect(peer.requests()).toBe(20);
    });

    it("FUN-12 connects ahead of the first call, which then needs no login", async () => {
      const { driver } = open();
      await driver.open?.();
      expect(peer.logins()).toBe(1);
      await driver.query(select, {});
      expect(peer.logins()).toBe(1);
    });
  });

  describe("a paused database", () => {
    const paused = (logins: number) => Array.from({ length: logins }, () => ({ number: 40613 }));

    it.each([
      ["query", (driver: ReturnType<typeof mssqlClient>) => driver.query(select, {})],
      [
        "transaction",
        (driver: ReturnType<typeof mssqlClient>) => driver.transaction((tx) => tx.query(select, {})),
      ],
      ["open", (driver: ReturnType<typeof mssqlClient>) => driver.open?.()],
    ])(
      "ADD-09 a %s waits for the resume: a minute, with a login every five seconds at most",
      async (_, call) => {
        const waits: number[] = [];
        const driver = connect({ wait: async (ms) => void waits.push(ms) });
        peer.failLogins(paused(16));
        await call(driver);
        expect(peer.logins()).toBe(17);
        expect(waits.reduce((sum, ms) => sum + ms, 0)).toBeGreaterThan(60_000);
        expect(Math.max(...waits)).toBe(5_000);
      },
    );

    it("ADD-09 the call's signal ends the wait, with its own reason", async () => {
      const controller = new AbortController();
      const driver = connect({});
      peer.failLogins(paused(1_000));
      const call = caught(driver.query(select, {}, { signal: controller.signal }));
      await expect.poll(() => peer.logins()).toBeGreaterThan(0);
      const reason = new Error("the function's time is up");
      controller.abort(reason);
      expect(await call).toBe(reason);
    });

    it("ADD-09 one that does not resume is reported once the limit has passed, and not waited for again", async () => {
      const waits: number[] = [];
      const driver = connect({ wait: async (ms) => void waits.push(ms) });
      peer.failLogins(paused(1_000));
      const error = await caught(driver.query(select, {}));
      expect(String(error)).toMatch(/not available for 90 seconds/);
      expect(sqlServerDialect.classify(error)).toBe("permanent");
      expect(waits.reduce((sum, ms) => sum + ms, 0)).toBeLessThan(100_000);
    });
  });

  describe("the end of a connection", () => {
    const atOnce = (db: ReturnType<typeof open>) =>
      Promise.all([1, 2, 3].map(() => db.driver.query(select, {})));

    it("FUN-12 closing the database closes all of them, the first one too", async () => {
      const db = open();
      await atOnce(db);
      expect(peer.connections()).toBe(3);
      await db.close();
      await expect.poll(() => peer.connections()).toBe(0);
    });

    it("FUN-12 one that was idle for too long is closed when another takes its place", async () => {
      const db = open(1);
      await atOnce(db);
      const realNow = Date.now;
      vi.spyOn(Date, "now").mockImplementation(() => realNow() + 600_000);
      await db.driver.query(select, {});
      expect(peer.logins()).toBe(2);
      await expect.poll(() => peer.connections()).toBe(1);
    });
  });

  describe("a connection with an open transaction", () => {
    it("IBX-102 OBX-080 that a failed statement has left there is closed: what came next would never be committed", async () => {
      const db = open(1);
      await db.driver.query(select, {});
      peer.failOpen({ number: 308, message: "the index does not exist" });
      expect(await caught(db.driver.query(select, {}))).toMatchObject({ number: 308 });
      await db.driver.query(select, {});
      expect(peer.logins()).toBe(2);
      await expect.poll(() => peer.connections()).toBe(1);
    });

    it("FUN-12 stays when the transaction has ended", async () => {
      const db = open(1);
      const failing = async () => {
        throw new Error("rolled back");
      };
      await db.driver.transaction(async (tx) => void (await tx.query(select, {})));
      await expect(db.driver.transaction(failing)).rejects.toThrow("rolled back");
      await db.driver.query(select, {});
      expect(peer.logins()).toBe(1);
    });
  });

  describe("a connection that died while idle", () => {
    /** The calls begin before the process can notice the end of its sockets, as after a thaw. */
    const idle = async () => {
      const db = open();
      // each transaction begins the next, so that all have connections of their own
      const hold = async (others: number): Promise<void> => {
        if (others > 0) await db.driver.transaction(() => hold(others - 1));
      };
      await hold(3);
      return { db, outbox: createOutbox(db) };
    };
    /** The process is frozen, and a gateway drops its connections without a word. */
    const freeze = () => {
      peer.muteConnections();
      const realNow = Date.now;
      vi.spyOn(Date, "now").mockImplementation(() => realNow() + 600_000);
    };

    it("FUN-12 costs a call one retry", async () => {
      const { outbox } = await idle();
      const before = peer.logins();
      peer.dropConnections();
      await outbox.enqueue(message);
      expect(peer.logins()).toBe(before + 1);
    });

    it("FUN-12 costs a transaction one retry of its begin, and its work runs once", async () => {
      const { db } = await idle();
      peer.dropConnections();
      let runs = 0;
      await db.driver.transaction(async (tx) => {
        runs++;
        await tx.query(select, {});
      });
      expect(runs).toBe(1);
    });

    it("FUN-12 that a gateway dropped without a word is not used: it was idle for too long", async () => {
      const { outbox } = await idle();
      const before = peer.logins();
      freeze();
      await outbox.enqueue(message);
      expect(peer.logins()).toBe(before + 1);
    });

    it("FUN-12 the same for one that was never used, because its call got another meanwhile", async () => {
      const db = open(2);
      let waiting: Promise<unknown> | undefined;
      await db.driver.transaction(async () => {
        waiting = db.driver.query(select, {}); // it begins to connect, and this connection is free before
      });
      await waiting;
      await expect.poll(() => peer.logins()).toBe(2);
      await sleep(200); // what a driver sends after its login
      freeze();
      await createOutbox(db).enqueue(message);
      expect(peer.logins()).toBe(3);
    });
  });
});
