import { describe, expect, it } from "vitest";
import { createDispatcher } from "../../../src/dispatch/dispatcher.js";
import { newOwnerToken } from "../../../src/queue/leases.js";
import { type SqlExecutor, statement } from "../../../src/sql/driver.js";
import { queueKinds } from "../queue/set-up.js";
import { type AnyMessage, type DispatchContext, testBudget } from "./support.js";

/** Handlers that share the acknowledgement's transaction. */
export function transactionalTests(context: DispatchContext): void {
  describe.each(queueKinds)("transactional handlers of the %s", (kind) => {
    let tables = 0;

    /** A business table of the caller's. */
    const businessTable = async () => {
      const { raw, schema, db } = context.database();
      const { message } = db.dialect.names("inbox", schema ?? "", `${kind}_orders_${++tables}`);
      await raw(`create table ${message} (payload varchar(100) not null)`);
      return {
        rows: async () =>
          (await raw(`select payload from ${message} order by payload`)).map((row) => row.payload),
        write: (tx: SqlExecutor, payload: string) =>
          tx.query(statement("business write", `insert into ${message} (payload) values ('${payload}')`), {}),
      };
    };

    it("ADD-04 business writes and the acknowledgement commit together", async () => {
      const { store, enqueue, countIn } = await context.subject(kind);
      const orders = await businessTable();
      await enqueue("t", ["a", "b", "c"]);
      const dispatcher = createDispatcher<AnyMessage, SqlExecutor>({
        handlers: {
          t: { transactional: true, handle: (message, { tx }) => orders.write(tx!, message.payload) },
        },
      });
      expect(await dispatcher.run(store, testBudget())).toMatchObject({ acked: 3, lost: 0 });
      expect(await orders.rows()).toEqual(["a", "b", "c"]);
      expect(await countIn("done")).toBe(3);
    });

    it("ADD-04 FUN-03 transactional handlers that never end are rolled back and their messages abandoned, and leave the database to the next run", async () => {
      const { store, enqueue, all, clock } = await context.subject(kind);
      const orders = await businessTable();
      await enqueue("t", ["a", "b", "c", "d", "e"]);
      let hang = true;
      const budget = testBudget();
      const dispatcher = createDispatcher<AnyMessage, SqlExecutor>({
        reserveMs: 400,
        handlers: {
          t: {
            transactional: true,
            async handle(message, { tx }) {
              await orders.write(tx!, message.payload);
              budget.remaining = 300; // less than the reserve: the run must end now
              budget.stop();
              if (hang) await new Promise(() => {});
            },
          },
        },
      });
      const first = await dispatcher.run(store, budget);
      // messages that got no transaction are released at no attempt
      expect(first.acked).toBe(0);
      expect(first.abandoned).toBeGreaterThanOrEqual(1);
      expect(first.abandoned + first.released).toBe(5);
      expect(await orders.rows()).toEqual([]);
      expect((await all()).map((message) => message.lockedUntil)).toEqual([null, null, null, null, null]);
      hang = false;
      clock.advance(60_000);
      const second = await createDispatcher<AnyMessage, SqlExecutor>({
        handlers: {
          t: { transactional: true, handle: (message, { tx }) => orders.write(tx!, message.payload) },
        },
      }).run(store, testBudget());
      expect(second).toMatchObject({ acked: 5, lost: 0 });
      expect(await orders.rows()).toEqual(["a", "b", "c", "d", "e"]);
    });

    it("ADD-04 ADD-12 a transactional handler past its topic's timeout is rolled back although it goes on", async () => {
      const { store, enqueue } = await context.subject(kind);
      const orders = await businessTable();
      await enqueue("t", ["a"]);
      const dispatcher = createDispatcher<AnyMessage, SqlExecutor>({
        handlers: {
          t: {
            transactional: true,
            timeoutMs: 50,
            async handle(message, { tx }) {
              await orders.write(tx!, message.payload);
              await new Promise(() => {});
            },
          },
        },
      });
      expect(await dispatcher.run(store, testBudget())).toMatchObject({ abandoned: 1, acked: 0 });
      expect(await orders.rows()).toEqual([]);
    });

    it("ADD-04 a handler that throws leaves no business row, and its message is retried", async () => {
      const { store, enqueue, clock, countIn } = await context.subject(kind);
      const orders = await businessTable();
      await enqueue("t", ["a"]);
      let runs = 0;
      const dispatcher = createDispatcher<AnyMessage, SqlExecutor>({
        handlers: {
          t: {
            transactional: true,
            async handle(message, { tx }) {
              await orders.write(tx!, `${message.payload}${runs}`);
              if (runs++ === 0) throw new Error("after the write");
            },
          },
        },
      });
      expect(await dispatcher.run(store, testBudget())).toMatchObject({ abandoned: 1 });
      expect(await orders.rows()).toEqual([]);
      clock.advance(60_000);
      expect(await dispatcher.run(store, testBudget())).toMatchObject({ acked: 1 });
      expect(await orders.rows()).toEqual(["a1"]);
      expect(await countIn("done")).toBe(1);
    });

    it("ADD-04 a worker that lost its lease cannot commit", async () => {
      const { store, enqueue, clock } = await context.subject(kind);
      const orders = await businessTable();
      await enqueue("t", ["a"]);
      const thief = newOwnerToken();
      let claims = 0;
      const stealing = {
        ...store,
        // only once: claiming ahead, the dispatcher could be quicker than the thief
        claim: (async (options) => (claims++ === 0 ? store.claim(options) : [])) as typeof store.claim,
        // the lease is lost between the claim and the handler's transaction
        transaction: (async (work, options) => {
          clock.advance(3_600_000);
          expect(await store.claim({ owner: thief })).toHaveLength(1);
          return store.transaction(work, options);
        }) as typeof store.transaction,
      };
      const dispatcher = createDispatcher<AnyMessage, SqlExecutor>({
        handlers: {
          t: { transactional: true, handle: (message, { tx }) => orders.write(tx!, message.payload) },
        },
      });
      expect(await dispatcher.run(stealing, testBudget())).toMatchObject({ acked: 0, lost: 1 });
      expect(await orders.rows()).toEqual([]);
      expect((await store.list()).messages[0]).toMatchObject({ owner: thief });
    });

    it("ADD-04 when no transaction can be opened the handler does not run, and its message is released at no attempt", async () => {
      const { store, enqueue, all, countIn } = await context.subject(kind);
      await enqueue("t", ["a"]);
      let tries = 0;
      const exhausted = {
        ...store,
        transaction: (async (work, options) => {
          if (++tries === 1) throw new Error("timeout exceeded when trying to connect");
          return store.transaction(work, options);
        }) as typeof store.transaction,
      };
      const attempts: number[] = [];
      const dispatcher = createDispatcher<AnyMessage, SqlExecutor>({
        handlers: { t: { transactional: true, handle: (message) => void attempts.push(message.attempt) } },
      });
      await expect(dispatcher.run(exhausted, testBudget())).rejects.toThrow("timeout exceeded");
      expect((await all())[0]).toMatchObject({ attempt: 0, owner: null });
      await dispatcher.run(exhausted, testBudget());
      expect(attempts).toEqual([0]);
      expect(await countIn("done")).toBe(1);
    });
  });
}
