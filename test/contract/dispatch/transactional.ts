import { describe, expect, it } from "vitest";
import { createDispatcher } from "../../../src/dispatch/dispatcher.js";
import type {
  BeginHandlerTransaction,
  TransactionalHandlerDefinition,
} from "../../../src/dispatch/handlers.js";
import { InvalidArgumentError, InvalidOperationError } from "../../../src/errors.js";
import { newOwnerToken } from "../../../src/queue/leases.js";
import { type SqlExecutor, statement } from "../../../src/sql/driver.js";
import type { CallerTransaction } from "../harness.js";
import { queueKinds } from "../queue/set-up.js";
import { gate } from "../support/gate.js";
import { type AnyMessage, type DispatchContext, testBudget } from "./support.js";

type Begin = BeginHandlerTransaction<SqlExecutor, CallerTransaction>;
type Handle = TransactionalHandlerDefinition<AnyMessage, SqlExecutor | CallerTransaction>["handle"];
/** Whose transaction a handler runs in: the store's, or one that the user's own code begins with the database's driver. */
type Whose = "store" | "own";

/** Handlers that share the acknowledgement's transaction. */
export function transactionalTests(context: DispatchContext): void {
  describe.each(queueKinds)("transactional handlers of the %s", (kind) => {
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

    /** A queue with the message "a", a business table, and dispatchers whose handlers write to it. */
    const subject = async (whose: Whose) => {
      const made = await context.subject(kind);
      const { raw, schema, db } = context.database();
      const { message } = db.dialect.names("inbox", schema ?? "", `${kind}_orders_${++tables}`);
      await raw(`create table ${message} (payload varchar(100) not null)`);
      await made.enqueue("t", ["a"]);
      const write: Handle = async ({ payload }, { tx }) => {
        const insert = `insert into ${message} (payload) values ('${payload}')`;
        await ("run" in tx! ? tx.run(insert) : tx!.query(statement("business write", insert), {}));
      };
      return {
        ...made,
        write,
        rows: async () =>
          (await raw(`select payload from ${message} order by payload`)).map((row) => row.payload),
        dispatcher: (
          handle: Handle,
          transaction: Begin = begin,
          more: { readonly timeoutMs?: number } = {},
        ) => {
          const options = {
            reserveMs: 400,
            logger: made.logger,
            handlers: { t: { transactional: true as const, handle, ...more } },
          };
          return whose === "store"
            ? createDispatcher<AnyMessage, SqlExecutor>(options)
            : // one at a time: SQLite has one writer, for which a caller's driver does not wait
              createDispatcher({
                store: made.store,
                ...options,
                concurrency: 1,
                transaction,
              });
        },
        /** A store and a `Begin` that call `before` at the start of each transaction. */
        interrupted(before: () => Promise<void>) {
          const transaction: typeof made.store.transaction = async (work, options) => {
            await before();
            return made.store.transaction(work, options);
          };
          const beginLater: Begin = async (work, options) => {
            await before();
            return begin(work, options);
          };
          return { interruptedStore: { ...made.store, transaction }, beginLater };
        },
      };
    };

    describe.each(["store", "own"] as const)("in a transaction of: %s", (whose) => {
      it("ADD-04 ADD-06 business writes and the acknowledgement commit together", async () => {
        const { store, dispatcher, write, rows, countIn } = await subject(whose);
        expect(await dispatcher(write).run(store, testBudget())).toMatchObject({ acked: 1, lost: 0 });
        expect(await rows()).toEqual(["a"]);
        expect(await countIn("done")).toBe(1);
      });

      it("ADD-04 ADD-06 a handler that throws leaves no business row, and its message is retried", async () => {
        const { store, dispatcher, write, rows, clock, countIn } = await subject(whose);
        let runs = 0;
        const failing = dispatcher(async (message, own) => {
          await write(message, own);
          if (runs++ === 0) throw new Error("after the write");
        });
        expect(await failing.run(store, testBudget())).toMatchObject({ abandoned: 1, acked: 0 });
        expect(await rows()).toEqual([]);
        clock.advance(60_000);
        expect(await failing.run(store, testBudget())).toMatchObject({ acked: 1 });
        expect(await rows()).toEqual(["a"]);
        expect(await countIn("done")).toBe(1);
      });

      it("ADD-04 ADD-06 a worker that lost its lease cannot commit", async () => {
        const { store, dispatcher, interrupted, write, rows, clock } = await subject(whose);
        const thief = newOwnerToken();
        const { interruptedStore, beginLater } = interrupted(async () => {
          clock.advance(3_600_000);
          expect(await store.claim({ owner: thief })).toHaveLength(1);
        });
        let claims = 0;
        // only once: claiming ahead, the dispatcher could be faster than the thief
        const claim: typeof store.claim = async (options) => (claims++ === 0 ? store.claim(options) : []);
        const result = await dispatcher(write, beginLater).run({ ...interruptedStore, claim }, testBudget());
        expect(result).toMatchObject({ acked: 0, lost: 1 });
        expect(await rows()).toEqual([]);
        expect((await store.list()).messages[0]).toMatchObject({ owner: thief });
      });

      it("ADD-04 ADD-06 when no transaction can be opened the handler does not run, and its message is released without an attempt", async () => {
        const { dispatcher, interrupted, write, rows, all } = await subject(whose);
        let tries = 0;
        const { interruptedStore, beginLater } = interrupted(async () => {
          if (++tries === 1) throw new Error("timeout exceeded when trying to connect");
        });
        const exhausted = dispatcher(write, beginLater);
        await expect(exhausted.run(interruptedStore, testBudget())).rejects.toThrow("timeout exceeded");
        expect((await all())[0]).toMatchObject({ attempt: 0, owner: null });
        await exhausted.run(interruptedStore, testBudget());
        expect(await rows()).toEqual(["a"]);
      });
    });

    it("FUN-03 ADD-04 handlers that never end are rolled back and their messages abandoned, and the next run handles them", async () => {
      const { store, enqueue, dispatcher, write, rows, all, clock } = await subject("store");
      await enqueue("t", ["b", "c", "d", "e"]);
      const budget = testBudget();
      const hanging = dispatcher(async (message, own) => {
        await write(message, own);
        budget.remaining = 300; // less than the reserve: the run must end now
        budget.stop();
        await new Promise(() => {});
      });
      const first = await hanging.run(store, budget);
      // messages that got no transaction are released at no attempt
      expect(first.acked).toBe(0);
      expect(first.abandoned).toBeGreaterThanOrEqual(1);
      expect(first.abandoned + first.released).toBe(5);
      expect(await rows()).toEqual([]);
      expect((await all()).map((message) => message.lockedUntil)).toEqual([null, null, null, null, null]);
      clock.advance(60_000);
      expect(await dispatcher(write).run(store, testBudget())).toMatchObject({ acked: 5, lost: 0 });
      expect(await rows()).toEqual(["a", "b", "c", "d", "e"]);
    });

    it("ADD-04 ADD-12 a handler past its topic's timeout is rolled back although it continues", async () => {
      const { store, dispatcher, write, rows } = await subject("store");
      const endless: Handle = async (message, own) => {
        await write(message, own);
        await new Promise(() => {});
      };
      const made = dispatcher(endless, undefined, { timeoutMs: 1_000 });
      expect(await made.run(store, testBudget())).toMatchObject({ abandoned: 1, acked: 0 });
      expect(await rows()).toEqual([]);
    });

    it("ADD-04 ADD-12 a handler that continues after its time is up cannot commit, although its library does not know", async () => {
      const { store, dispatcher, write, rows, all, clock } = await subject("own");
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
          // It hears its signal and continues.
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

    it("ADD-04 FUN-03 a transaction that begins after the run gave it up does not call the handler", async () => {
      const { store, dispatcher, write, rows, all } = await subject("own");
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
      const { store, dispatcher, write, rows, all } = await subject("own");
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
      const { store, dispatcher, write, rows } = await subject("own");
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

    it("ADD-04 a function that hides its work's error or result fails the message, with an error in the log", async () => {
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
        const { store, dispatcher, rows, all, logs } = await subject("own");
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

    it("ADD-04 a function that never calls its work ends the run with an error, and the message is released without an attempt", async () => {
      const { store, dispatcher, write, all } = await subject("own");
      const nothing = (async () => {}) as unknown as Begin;
      await expect(dispatcher(write, nothing).run(store, testBudget())).rejects.toThrow(/must wait for work/);
      expect((await all())[0]).toMatchObject({ attempt: 0, owner: null });
    });

    it("ADD-06 an invalid transaction function or store is refused when the dispatcher is created", () => {
      const options = { handlers: {} };
      for (const transaction of [null, {}, "begin"] as unknown as Begin[])
        expect(() => createDispatcher({ ...options, transaction })).toThrow(InvalidArgumentError);
      for (const store of [undefined, null, {}] as unknown as never[])
        expect(() => createDispatcher({ ...options, store })).toThrow(InvalidArgumentError);
    });
  });
}
