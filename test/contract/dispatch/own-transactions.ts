import { describe, expect, it } from "vitest";
import { createDispatcher, type InTransactions } from "../../../src/dispatch/dispatcher.js";
import type {
  BeginHandlerTransaction,
  TransactionalHandlerDefinition,
} from "../../../src/dispatch/handlers.js";
import { InvalidArgumentError, InvalidOperationError } from "../../../src/errors.js";
import { newOwnerToken } from "../../../src/queue/leases.js";
import type { SqlExecutor } from "../../../src/sql/driver.js";
import type { CallerTransaction } from "../harness.js";
import { queueKinds } from "../queue/set-up.js";
import { gate } from "../support/gate.js";
import { type AnyMessage, type DispatchContext, testBudget } from "./support.js";

type Begin = BeginHandlerTransaction<SqlExecutor, CallerTransaction>;
type Handle = TransactionalHandlerDefinition<AnyMessage, CallerTransaction>["handle"];

/** Handlers in a transaction that the user's own code begins, with the database's own driver. */
export function ownTransactionTests(context: DispatchContext): void {
  describe.each(queueKinds)("handlers of the %s in the user's own transaction", (kind) => {
    let tables = 0;

    /** As a user writes it. */
    const begin: Begin = async (work) => {
      const transaction = await context.database().begin();
      let ran: Awaited<ReturnType<Begin>>;
      try {
        ran = await work(transaction.tx, transaction);
      } catch (error) {
        await transaction.rollback();
        throw error;
      }
      await transaction.commit();
      return ran;
    };

    const subject = async () => {
      const made = await context.subject(kind);
      const { raw, schema, db } = context.database();
      const { message } = db.dialect.names("inbox", schema ?? "", `${kind}_own_orders_${++tables}`);
      await raw(`create table ${message} (payload varchar(100) not null)`);
      await made.enqueue("t", ["a"]);
      const write: Handle = ({ payload }, { tx }) => tx.run(`insert into ${message} values ('${payload}')`);
      return {
        ...made,
        write,
        rows: async () => (await raw(`select payload from ${message}`)).map((row) => row.payload),
        // one at a time: of SQLite's writers there is one, and the driver of a caller waits for it in vain
        dispatcher: (handle: Handle, transaction: Begin, more: { readonly timeoutMs?: number } = {}) =>
          createDispatcher<AnyMessage, SqlExecutor, CallerTransaction>({
            concurrency: 1,
            reserveMs: 400,
            logger: made.logger,
            transaction,
            handlers: { t: { transactional: true, handle, ...more } },
          }),
      };
    };

    it("ADD-04 ADD-06 business writes and the acknowledgement commit together", async () => {
      const { store, dispatcher, write, rows, countIn } = await subject();
      expect(await dispatcher(write, begin).run(store, testBudget())).toMatchObject({ acked: 1, lost: 0 });
      expect(await rows()).toEqual(["a"]);
      expect(await countIn("done")).toBe(1);
    });

    it("ADD-04 ADD-06 a handler that throws leaves no business row, and its message is retried", async () => {
      const { store, dispatcher, write, rows, clock, countIn } = await subject();
      let runs = 0;
      const failing = dispatcher(async (message, own) => {
        await write(message, own);
        if (runs++ === 0) throw new Error("after the write");
      }, begin);
      expect(await failing.run(store, testBudget())).toMatchObject({ abandoned: 1, acked: 0 });
      expect(await rows()).toEqual([]);
      clock.advance(60_000);
      expect(await failing.run(store, testBudget())).toMatchObject({ acked: 1 });
      expect(await rows()).toEqual(["a"]);
      expect(await countIn("done")).toBe(1);
    });

    it("ADD-04 ADD-06 a worker that lost its lease cannot commit", async () => {
      const { store, dispatcher, write, rows, clock } = await subject();
      const thief = newOwnerToken();
      let claims = 0;
      // only once: claiming ahead, the dispatcher could be quicker than the thief
      const once = {
        ...store,
        claim: (async (options) => (claims++ === 0 ? store.claim(options) : [])) as typeof store.claim,
      };
      const stolen: Begin = async (work, options) => {
        clock.advance(3_600_000);
        expect(await store.claim({ owner: thief })).toHaveLength(1);
        return begin(work, options);
      };
      expect(await dispatcher(write, stolen).run(once, testBudget())).toMatchObject({ acked: 0, lost: 1 });
      expect(await rows()).toEqual([]);
      expect((await store.list()).messages[0]).toMatchObject({ owner: thief });
    });

    it("ADD-04 ADD-06 when no transaction can be begun the handler does not run, and its message is released at no attempt", async () => {
      const { store, dispatcher, write, rows, all } = await subject();
      let tries = 0;
      const exhausted: Begin = async (work, options) => {
        if (++tries === 1) throw new Error("timeout exceeded when trying to connect");
        return begin(work, options);
      };
      const made = dispatcher(write, exhausted);
      await expect(made.run(store, testBudget())).rejects.toThrow("timeout exceeded");
      expect((await all())[0]).toMatchObject({ attempt: 0, owner: null });
      await made.run(store, testBudget());
      expect(await rows()).toEqual(["a"]);
    });

    it("ADD-04 ADD-12 a handler that goes on after its time is up cannot commit, although its library knows nothing of it", async () => {
      const { store, dispatcher, write, rows, all, clock } = await subject();
      const ended = gate<unknown>();
      let runs = 0;
      const watched: Begin = async (work, options) => {
        const running = begin(work, options);
        running.then(ended.open, ended.open);
        return running;
      };
      const budget = testBudget();
      const handle: Handle = async (message, own) => {
        if (++runs === 1) {
          budget.remaining = 300; // less than the reserve: the run must end now
          budget.stop();
          // It hears its signal and goes on all the same.
          await new Promise((heard) => own.signal.addEventListener("abort", heard));
        }
        await write(message, own);
      };
      const first = dispatcher(handle, watched).run(store, budget);
      expect(await ended.promise).toMatchObject({ name: "TimeoutError" });
      expect(await first).toMatchObject({ acked: 0, abandoned: 1 });
      expect(await rows()).toEqual([]);
      clock.advance(60_000);
      expect(await dispatcher(handle, watched).run(store, testBudget())).toMatchObject({ acked: 1 });
      expect(await rows()).toEqual(["a"]);
      expect((await all())[0]!.attempt).toBe(1);
    });

    it("ADD-04 FUN-03 a transaction that begins after the run has given it up does not call the handler", async () => {
      const { store, dispatcher, write, rows, all } = await subject();
      const begun = gate();
      const ended = gate<unknown>();
      const waiting: Begin = async (work, options) => {
        await begun.promise;
        const running = begin(work, options);
        running.catch(ended.open);
        return running;
      };
      const result = await dispatcher(write, waiting, { timeoutMs: 50 }).run(store, testBudget());
      expect(result).toMatchObject({ acked: 0, abandoned: 0, released: 1 });
      begun.open();
      expect(await ended.promise).toMatchObject({ name: "TimeoutError" });
      expect(await rows()).toEqual([]);
      expect((await all())[0]).toMatchObject({ attempt: 0, owner: null });
    });

    it("ADD-04 ADD-06 a commit that fails is a failed attempt, and leaves no row", async () => {
      const { store, dispatcher, write, rows, all } = await subject();
      const undone: Begin = async (work) => {
        const transaction = await context.database().begin();
        await work(transaction.tx, transaction);
        await transaction.rollback();
        throw new Error("could not serialize access");
      };
      expect(await dispatcher(write, undone).run(store, testBudget())).toMatchObject({
        acked: 0,
        abandoned: 1,
      });
      expect(await rows()).toEqual([]);
      expect((await all())[0]).toMatchObject({
        attempt: 1,
        lastError: expect.stringContaining("serialize"),
      });
    });

    it("ADD-04 ADD-06 a function that begins again after a conflict runs the handler again, and commits once", async () => {
      const { store, dispatcher, write, rows } = await subject();
      let handled = 0;
      const repeating: Begin = async (work, options) => {
        const first = await context.database().begin();
        await work(first.tx, first);
        await first.rollback();
        return begin(work, options);
      };
      const counting = dispatcher((message, own) => {
        handled++;
        return write(message, own);
      }, repeating);
      expect(await counting.run(store, testBudget())).toMatchObject({ acked: 1, lost: 0 });
      expect([handled, await rows()]).toEqual([2, ["a"]]);
    });

    it("ADD-04 a function that hides its work's error, or does not return what it returns, fails the message and says so", async () => {
      const mistakes: Record<string, (...call: Parameters<Begin>) => Promise<unknown>> = {
        "hides its error": async (work) => {
          const transaction = await context.database().begin();
          await work(transaction.tx, transaction).catch(() => {});
          await transaction.rollback();
        },
        "returns nothing": async (work) => {
          const transaction = await context.database().begin();
          await work(transaction.tx, transaction);
          await transaction.rollback();
        },
      };
      for (const [name, mistake] of Object.entries(mistakes)) {
        const { store, dispatcher, rows, all, logs } = await subject();
        const failing: Handle = async () => {
          if (name === "hides its error") throw new InvalidOperationError("of the handler");
        };
        const result = await dispatcher(failing, mistake as Begin).run(store, testBudget());
        expect(result, name).toMatchObject({ acked: 0 });
        expect(await rows(), name).toEqual([]);
        expect((await all())[0]!.state, name).not.toBe("Done");
        const failed = logs.filter(({ level }) => level === "error");
        expect(failed.length, name).toBeGreaterThan(0);
      }
    });

    it("ADD-04 a function that never calls its work ends the run with an error, and the message is released at no attempt", async () => {
      const { store, dispatcher, write, all } = await subject();
      const nothing = (async () => {}) as unknown as Begin;
      await expect(dispatcher(write, nothing).run(store, testBudget())).rejects.toThrow(/must wait for work/);
      expect((await all())[0]).toMatchObject({ attempt: 0, owner: null });
    });

    it("ADD-06 a transaction that is no function, and a store that is none, are refused when the dispatcher is made", () => {
      const options = { handlers: {} };
      for (const transaction of [null, {}, "begin"] as unknown as InTransactions<
        unknown,
        unknown
      >["transaction"][])
        expect(() => createDispatcher({ ...options, transaction })).toThrow(InvalidArgumentError);
      for (const store of [undefined, null, {}] as unknown as never[])
        expect(() => createDispatcher({ ...options, store })).toThrow(InvalidArgumentError);
    });
  });
}
