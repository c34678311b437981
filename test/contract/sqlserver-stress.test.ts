import { randomUUID } from "node:crypto";
import mssql from "mssql";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { operatorsOf } from "../../src/admin/index.js";
import { createInbox, createOutbox, migrate, newOwnerToken, type Outbox } from "../../src/index.js";
import { fromMssql, openSqlServer } from "../../src/sql/sqlserver/index.js";
import { parseMssqlUrl } from "../../src/sql/sqlserver/open.js";
import { sqlServerHarness } from "../support/sqlserver-harness.js";
import type { TestDatabase } from "./harness.js";
import { isBabelfish } from "./support/database.js";

const url = inject("sqlServerUrl");
const quiet = { debug: () => {}, info: () => {}, error: () => {} };
const noting = (faults: unknown[]) => ({
  ...quiet,
  warn: (...warning: unknown[]) => void faults.push(warning),
});

/**
 * What only a server with locks can show: deadlocks, waits, scans. Babelfish has row versions and ignores lock hints; it runs
 * a little of this, and the other tests are skipped there.
 */
describe.skipIf(url === "")(
  "SQL Server under load (needs ONCEBOX_TEST_MSSQL_URL or Docker)",
  { timeout: 600_000 },
  () => {
    const settings = ["off", "on"] as const;
    const state = { isServer: false };
    beforeAll(async () => {
      const database = await sqlServerHarness(url).open();
      state.isServer = !(await isBabelfish(database));
      await database.close();
    });

    describe.each(settings)("READ_COMMITTED_SNAPSHOT %s", (snapshot) => {
      let loaded: LoadedDatabase | undefined;
      let database: TestDatabase;
      let outbox: Outbox;
      const faults: unknown[] = [];
      beforeAll(async () => {
        if (!state.isServer && snapshot === "off") return;
        loaded = await openDatabase(url, state.isServer ? snapshot : undefined);
        ({ database } = loaded);
        await migrate(database.db, { schema: database.schema! });
        outbox = createOutbox(database.db, { schema: database.schema!, logger: noting(faults) });
      }, 300_000);
      afterAll(() => loaded?.end());

      it("ADD-01 concurrent enqueues, claims and acks on 50 keys cause no deadlock, lose nothing and keep the order of each key", async (test) => {
        test.skip(!state.isServer && snapshot === "off", "needs SQL Server");
        const size = state.isServer
          ? { rounds: 100, workers: 8, keys: 50 }
          : { rounds: 2, workers: 3, keys: 5 };
        const before = await deadlocksOf(database);
        faults.length = 0;
        const total = size.workers * size.rounds;
        const seen = new Map<string, number[]>();
        let handled = 0;
        const produce = async (producer: number): Promise<void> => {
          for (let round = 0; round < size.rounds; round++) {
            const key = (producer * 7 + round) % size.keys;
            await outbox.enqueue({ topic: "t", payload: `${producer} ${round}`, partitionKey: `key ${key}` });
          }
        };
        const consume = async (): Promise<void> => {
          const owner = newOwnerToken();
          while (handled < total) {
            const messages = await outbox.claim({ owner, batchSize: 10, leaseMs: 300_000 });
            for (const { partitionKey, payload } of messages) {
              const [producer, round] = payload.split(" ").map(Number);
              const group = `${partitionKey} ${producer}`;
              seen.set(group, [...(seen.get(group) ?? []), round!]);
            }
            handled += (await outbox.ack(owner, messages)).changed.length;
          }
        };
        const workers = Array.from({ length: size.workers }, (_, n) => n);
        await Promise.all([...workers.map(produce), ...workers.map(consume)]);
        expect(handled).toBe(total);
        for (const rounds of seen.values()) expect(rounds).toEqual(rounds.toSorted((a, b) => a - b));
        expect(faults).toEqual([]); // a deadlock is retried with a warning
        expect((await deadlocksOf(database)) - before).toBe(0);
      });

      it("IBX-104 ADD-17 redelivered batches beside claims, settlements and changing controls cause no deadlock", async (test) => {
        test.skip(!state.isServer && snapshot === "off", "needs SQL Server");
        const size = state.isServer
          ? { rounds: 100, workers: 4, batch: 20 }
          : { rounds: 2, workers: 2, batch: 4 };
        const inbox = createInbox(database.db, { schema: database.schema!, logger: noting(faults) });
        const before = await deadlocksOf(database);
        faults.length = 0;
        const rounds = Array.from({ length: size.rounds }, (_, round) => round);
        const workers = Array.from({ length: size.workers }, (_, worker) => worker);
        /** The keys are in another order than the numbers, which follow the position in the first batch. */
        const batchOf = (round: number) =>
          Array.from({ length: size.batch }, (_, n) => ({
            source: "s",
            messageId: `${round} ${(n * 7 + round) % size.batch}`,
            topic: `t${n % 2}`,
            payload: `${n}`,
          }));
        const deliver = async (worker: number): Promise<void> => {
          for (const round of rounds) await inbox.enqueue(batchOf((round + worker) % size.rounds));
        };
        const handle = async (): Promise<void> => {
          const owner = newOwnerToken();
          for (const _ of rounds) {
            const messages = await inbox.claim({ owner, batchSize: size.batch, leaseMs: 300_000 });
            await inbox.renew(owner, messages, 300_000);
            await inbox.ack(owner, messages);
          }
        };
        const operators = operatorsOf(inbox);
        const operate = async (worker: number): Promise<void> => {
          const [topic, by] = [`t${worker % 2}`, { by: "stress" }];
          for (const _ of rounds) {
            await operators.pause({ topic }, by);
            await operators.resume({ topic }, by);
            await operators.pause("all", by);
            await operators.resume("all", by);
          }
        };
        for (const round of rounds) await inbox.enqueue(batchOf(round));
        await Promise.all([
          ...workers.map(deliver),
          ...workers.map(handle),
          ...workers.slice(0, 2).map(operate),
        ]);
        // a deadlock is retried with a warning; where lock hints are ignored, rows are locked in the order of the plan
        if (state.isServer) expect(faults).toEqual([]);
        expect((await deadlocksOf(database)) - before).toBe(0);
        const { counts } = await inbox.stats();
        expect(Object.values(counts).reduce((sum, count) => sum + count, 0)).toBe(size.rounds * size.batch);
      });

      /** Runs all at once, each again until the first of them is at its end. Returns how many deadlocks the server had meanwhile. */
      const together = async (
        work: () => Promise<void>,
        others: readonly (() => Promise<unknown>)[],
      ): Promise<number> => {
        const before = await deadlocksOf(database);
        faults.length = 0;
        let isWorking = true;
        const repeat = async (one: () => Promise<unknown>) => {
          while (isWorking) await one();
        };
        const end = () => {
          isWorking = false;
        };
        await Promise.all([work().finally(end), ...others.map(repeat)]);
        return (await deadlocksOf(database)) - before;
      };

      it("IBX-122 OBX-100 claims beside the reaper, on leases and messages that have expired, cause no deadlock", async (test) => {
        test.skip(!state.isServer && snapshot === "off", "needs SQL Server");
        const size = state.isServer ? { rounds: 200, batch: 50 } : { rounds: 2, batch: 4 };
        const own = createOutbox(database.db, {
          schema: database.schema!,
          logger: noting(faults),
          retry: { maxAttempts: 2, baseMs: 1 },
        });
        const produce = async () => {
          for (let round = 0; round < size.rounds; round++)
            await own.enqueue(
              Array.from({ length: size.batch }, (_, n) => ({
                topic: "expired",
                payload: `${n}`,
                // some are past their time when they are claimed, others lose their lease twice
                ...(n % 2 === 0 ? { expiresAt: new Date() } : {}),
                ...(n % 5 === 0 ? { partitionKey: `key ${n}` } : {}),
              })),
            );
        };
        const claim = () => own.claim({ owner: newOwnerToken(), batchSize: size.batch, leaseMs: 1 });
        const reap = () => own.reapExpired({ batchSize: size.batch });
        const found = await together(produce, [claim, claim, claim, reap, reap]);
        if (state.isServer) expect(faults).toEqual([]);
        expect(found).toBe(0);
      });

      it("IBX-104 ADD-02 purges beside redeliveries, marks and questions about the same messages cause no deadlock", async (test) => {
        test.skip(!state.isServer && snapshot === "off", "needs SQL Server");
        const size = state.isServer ? { rounds: 300, batch: 20 } : { rounds: 2, batch: 4 };
        const inbox = createInbox(database.db, { schema: database.schema!, logger: noting(faults) });
        const keys = Array.from({ length: size.batch }, (_, n) => ({
          source: "purged",
          messageId: `${(n * 7) % size.batch}`,
        }));
        const messages = keys.map((key) => ({
          ...key,
          topic: "t",
          payload: "",
          correlationId: key.messageId,
        }));
        const deliver = async () => {
          for (let round = 0; round < size.rounds; round++) await inbox.enqueue(messages);
        };
        let asked = 0;
        const next = () => keys[asked++ % keys.length]!;
        const handle = async () => {
          const owner = newOwnerToken();
          const [first, ...others] = await inbox.claim({ owner, batchSize: size.batch, leaseMs: 300_000 });
          await inbox.ack(owner, others);
          if (first !== undefined) await inbox.fail(owner, [first], "no");
        };
        const found = await together(deliver, [
          handle,
          () => inbox.purgeDone({ retentionMs: 1 }),
          () => inbox.purgeDead({ retentionMs: 1 }),
          () => inbox.alreadyProcessed(next()),
          () => inbox.markProcessed(next()),
        ]);
        if (state.isServer) expect(faults).toEqual([]);
        expect(found).toBe(0);
      });

      it("ADD-10 IBX-104 discards, archives and replays beside redeliveries of the same dead messages cause no deadlock", async (test) => {
        test.skip(!state.isServer && snapshot === "off", "needs SQL Server");
        const size = state.isServer ? { rounds: 200, batch: 20 } : { rounds: 1, batch: 3 };
        const inbox = createInbox(database.db, { schema: database.schema!, logger: noting(faults) });
        const operators = operatorsOf(inbox);
        const keys = Array.from({ length: size.batch }, (_, n) => ({
          source: "dead",
          messageId: `${(n * 7) % size.batch}`,
        }));
        const messages = keys.map((key) => ({ ...key, topic: "t", payload: "" }));
        const deliver = async () => {
          for (let round = 0; round < size.rounds; round++) await inbox.enqueue(messages);
        };
        const fail = async () => {
          const owner = newOwnerToken();
          await inbox.fail(owner, await inbox.claim({ owner, batchSize: size.batch }), "no");
        };
        const by = { by: "stress" };
        const found = await together(deliver, [
          fail,
          () => operators.discard(keys, by),
          () => operators.archive(keys, by),
          () => inbox.replay(keys),
        ]);
        if (state.isServer) expect(faults).toEqual([]);
        expect(found).toBe(0);
      });

      it("ADD-01 a slow transaction that acked a message with a key blocks nobody else", async (test) => {
        test.skip(!state.isServer, "needs SQL Server's locks");
        const owner = newOwnerToken();
        await outbox.enqueue(["1", "2"].map((payload) => ({ topic: "t", payload, partitionKey: "slow" })));
        const [head] = await outbox.claim({ owner });
        const slow = await database.begin();
        await outbox.ack(owner, [head!], { tx: slow.tx });
        for (const payload of ["plain", "keyed"]) {
          await outbox.enqueue({
            topic: "t",
            payload,
            ...(payload === "keyed" ? { partitionKey: "other" } : {}),
          });
          const claimed = await outbox.claim({ owner });
          expect(claimed.map((one) => one.payload)).toEqual([payload]);
          await outbox.ack(owner, claimed);
        }
        await slow.commit();
        const next = await outbox.claim({ owner });
        expect(next.map(({ payload }) => payload)).toEqual(["2"]);
        await outbox.ack(owner, next);
      });

      it("ADD-01 under SNAPSHOT in the caller's transaction no key gets stuck", async (test) => {
        test.skip(!state.isServer, "needs SQL Server's SNAPSHOT");
        const owner = newOwnerToken();
        const key = { partitionKey: `snapshot ${randomUUID()}` };
        await outbox.enqueue({ topic: "t", payload: "1", ...key });
        const [head] = await outbox.claim({ owner });
        const caller = await beginSnapshot(loaded!.url);
        await caller.run(`select count(*) from [${database.schema}].[OutboxState]`); // from here on it sees this state
        await outbox.enqueue({ topic: "t", payload: "2", ...key });
        expect(await outbox.claim({ owner })).toEqual([]);
        await outbox.ack(owner, [head!], { tx: caller.tx });
        await caller.commit();
        const next = await outbox.claim({ owner });
        expect(next.map(({ payload }) => payload)).toEqual(["2"]);
        await outbox.ack(owner, next);
      });

      it("ADD-01 the reads of an ack do not grow with the partition queue", async (test) => {
        test.skip(!state.isServer, "needs the counters of SQL Server");
        const owner = newOwnerToken();
        const count = 20_000;
        for (let from = 0; from < count; from += 1_000)
          await outbox.enqueue(
            Array.from({ length: 1_000 }, (_, n) => ({
              topic: "t",
              payload: `${from + n}`,
              partitionKey: "long",
            })),
          );
        const reads: number[] = [];
        for (let n = 0; n < count; n++) {
          const messages = await outbox.claim({ owner });
          if (n % 1_000 !== 500) {
            await outbox.ack(owner, messages);
            continue;
          }
          const before = await readsOf(database, "Outbox_Ack");
          await outbox.ack(owner, messages);
          reads.push((await readsOf(database, "Outbox_Ack")) - before);
        }
        expect(Math.max(...reads)).toBeLessThan(3 * Math.min(...reads) + 100);
      });
    });
  },
);

interface LoadedDatabase {
  readonly database: TestDatabase;
  readonly url: string;
  end(): Promise<void>;
}

/** A database of its own with READ_COMMITTED_SNAPSHOT on or off; a schema of the given one when that is undefined. */
async function openDatabase(given: string, snapshot: "on" | "off" | undefined): Promise<LoadedDatabase> {
  if (snapshot === undefined) {
    const database = await sqlServerHarness(given).open();
    return { database, url: given, end: () => database.close() };
  }
  const name = `oncebox_${randomUUID().slice(0, 8)}`;
  const server = openSqlServer({ url: given, maxConnections: 1 });
  const run = (text: string) => server.driver.query({ name: "load", text, unprepared: true }, {});
  await run(`create database [${name}]`);
  await run(`alter database [${name}] set read_committed_snapshot ${snapshot} with rollback immediate`);
  await run(`alter database [${name}] set allow_snapshot_isolation on`);
  const url = new URL(given);
  url.pathname = `/${name}`;
  const database = await sqlServerHarness(url.href).open();
  return {
    database,
    url: url.href,
    async end() {
      await database.close();
      await run(`alter database [${name}] set single_user with rollback immediate`);
      await run(`drop database [${name}]`);
      await server.close();
    },
  };
}

/** A caller's transaction under SNAPSHOT. */
async function beginSnapshot(url: string) {
  const pool = new mssql.ConnectionPool({ ...parseMssqlUrl(url), pool: { max: 1 } });
  await pool.connect();
  const transaction = pool.transaction();
  await transaction.begin(mssql.ISOLATION_LEVEL.SNAPSHOT);
  return {
    tx: fromMssql(transaction),
    run: (text: string) => transaction.request().batch(text),
    async commit() {
      await transaction.commit();
      await pool.close();
    },
  };
}

/** How many deadlocks the server has had since it started. Babelfish does not count them. */
async function deadlocksOf(database: TestDatabase): Promise<number> {
  if (await isBabelfish(database)) return 0;
  const [row] = await database.raw(
    "select cntr_value as n from sys.dm_os_performance_counters where counter_name like 'Number of Deadlocks/sec%' and instance_name = '_Total'",
  );
  return Number(row!.n);
}

/** The pages that a procedure has read since it was compiled. */
async function readsOf(database: TestDatabase, procedure: string): Promise<number> {
  const [row] = await database.raw(
    `select sum(s.total_logical_reads) as n from sys.dm_exec_procedure_stats s
where s.database_id = db_id() and s.object_id = object_id(N'[${database.schema}].[${procedure}]')`,
  );
  return Number(row!.n);
}
