import { describe, expect, it } from "vitest";
import { sleep } from "../../../src/base/async.js";
import { createDispatcher } from "../../../src/dispatch/dispatcher.js";
import { queueKinds } from "../queue/set-up.js";
import { gate } from "../support/gate.js";
import { type AnyMessage, type DispatchContext, testBudget } from "./support.js";

/** What a run does with the time it has. */
export function timeTests(context: DispatchContext): void {
  describe.each(queueKinds)("time of the %s's dispatcher", (kind) => {
    it("claims 50 messages at a time for 30 s by default, and runs 10 handlers at once", async () => {
      const { store, enqueue } = await context.subject(kind);
      await enqueue("t", Array.from({ length: 60 }, String));
      const claims: Parameters<typeof store.claim>[0][] = [];
      const watched = {
        ...store,
        claim: (options: Parameters<typeof store.claim>[0]) => {
          claims.push(options);
          return store.claim(options);
        },
      };
      let active = 0;
      let most = 0;
      const dispatcher = createDispatcher<AnyMessage>({
        handlers: {
          async t() {
            most = Math.max(most, ++active);
            await new Promise((resolve) => setImmediate(resolve));
            active--;
          },
        },
      });
      expect(await dispatcher.run(watched, testBudget())).toMatchObject({ acked: 60 });
      expect(claims[0]).toMatchObject({ batchSize: 50, leaseMs: 30_000 });
      expect(most).toBe(10);
    });

    it("FUN-03 with no time left nothing is claimed", async () => {
      const { store, enqueue, all } = await context.subject(kind);
      await enqueue("t", ["x"]);
      const dispatcher = createDispatcher<AnyMessage>({ handlers: { t: () => {} } });
      expect(await dispatcher.run(store, testBudget(0))).toMatchObject({ claimed: 0, stopped: "time" });
      expect((await all())[0]).toMatchObject({ attempt: 0, owner: null });
    });

    it("FUN-03 messages that do not fit into the remaining time are released without an attempt", async () => {
      const { store, enqueue, all, countIn } = await context.subject(kind);
      await enqueue("t", Array.from({ length: 30 }, String));
      const budget = testBudget(10_000);
      let handled = 0;
      const dispatcher = createDispatcher<AnyMessage>({
        concurrency: 1,
        reserveMs: 1_000,
        expectedHandlerMs: 1, // one claim takes all
        handlers: {
          // asynchronous, because this budget jumps: within a tick the dispatcher reads it once per millisecond
          async t() {
            handled++;
            if (handled === 5) budget.remaining = 1_000; // only the reserve is left
          },
        },
      });
      expect(await dispatcher.run(store, budget)).toMatchObject({ acked: 5, released: 25, stopped: "time" });
      expect(await countIn("done")).toBe(5);
      const rest = (await all()).filter((message) => message.processedAt === null);
      expect(rest).toHaveLength(25);
      for (const message of rest)
        expect(message).toMatchObject({ attempt: 0, owner: null, lockedUntil: null });
      expect(
        await createDispatcher<AnyMessage>({ handlers: { t: () => {} } }).run(store, testBudget()),
      ).toMatchObject({ acked: 25 });
    });

    it("FUN-03 learns how long a topic takes; one that fits into no run is reported and tried by the next", async () => {
      const { store, enqueue, logger, logs } = await context.subject(kind);
      await enqueue("slow", ["1"]);
      const dispatcher = createDispatcher<AnyMessage>({
        reserveMs: 10,
        logger,
        expectedHandlerMs: 1,
        handlers: { slow: ({ payload }) => (payload === "1" ? sleep(300) : undefined) },
      });
      expect(await dispatcher.run(store, testBudget())).toMatchObject({ acked: 1 });
      await enqueue("slow", ["2"]);
      expect(await dispatcher.run(store, testBudget(250))).toMatchObject({ handled: 0, released: 1 });
      expect(logs).toContainEqual(
        expect.objectContaining({ level: "warn", message: "too little time for this topic" }),
      );
      expect(await dispatcher.run(store, testBudget(250))).toMatchObject({ acked: 1 });
    });

    it("FUN-03 small messages fill the time that is too short for large ones", async () => {
      const { store, enqueue } = await context.subject(kind);
      await enqueue("large", ["1"]);
      const dispatcher = createDispatcher<AnyMessage>({
        reserveMs: 10,
        expectedHandlerMs: 1,
        handlers: { large: () => sleep(400), small: () => {} },
      });
      await dispatcher.run(store, testBudget());
      await enqueue("large", ["2", "3"]);
      await enqueue("small", ["1", "2", "3"]);
      expect(await dispatcher.run(store, testBudget(300))).toMatchObject({ acked: 3, released: 2 });
    });

    it("FUN-03 claims no more near the end than it can handle", async () => {
      const { store, enqueue } = await context.subject(kind);
      const asked: (number | undefined)[] = [];
      const watched = {
        ...store,
        claim: (options: Parameters<typeof store.claim>[0]) => {
          asked.push(options.batchSize);
          return store.claim(options);
        },
      };
      await enqueue("t", ["1"]);
      const dispatcher = createDispatcher<AnyMessage>({
        concurrency: 2,
        reserveMs: 10,
        expectedHandlerMs: 1,
        handlers: { t: () => new Promise((resolve) => setTimeout(resolve, 50)) },
      });
      await dispatcher.run(watched, testBudget());
      expect(asked[0]).toBe(50);
      asked.length = 0;
      await dispatcher.run(watched, testBudget(100)); // two rounds of two
      expect(asked[0]).toBeLessThanOrEqual(6); // a timer may come a little early: then three rounds fit
    });

    it("FUN-03 a handler that still runs at the end is aborted, and its message is abandoned with a reason", async () => {
      const { store, enqueue, all } = await context.subject(kind);
      await enqueue("obedient", ["x"]);
      await enqueue("stubborn", ["x"]);
      const budget = testBudget();
      const started: string[] = [];
      const dispatcher = createDispatcher<AnyMessage>({
        reserveMs: 1_000,
        handlers: {
          obedient: (_message, { signal }) =>
            new Promise((_, reject) => {
              started.push("obedient");
              signal.addEventListener("abort", () => reject(signal.reason));
            }),
          stubborn: () =>
            new Promise(() => {
              started.push("stubborn");
              budget.remaining = 600; // less than the reserve: the run must end now
              budget.stop();
            }),
        },
      });
      expect(await dispatcher.run(store, budget)).toMatchObject({ abandoned: 2, acked: 0 });
      expect(started.sort()).toEqual(["obedient", "stubborn"]);
      for (const message of await all()) {
        expect(message).toMatchObject({
          attempt: 1,
          owner: null,
          lastError: expect.stringContaining("time was up"),
        });
      }
    });

    it("FUN-03 after a stop running handlers finish and no more are started", async () => {
      const { store, enqueue, countIn } = await context.subject(kind);
      await enqueue("t", Array.from({ length: 10 }, String));
      const budget = testBudget();
      let started = 0;
      const dispatcher = createDispatcher<AnyMessage>({
        concurrency: 2,
        handlers: {
          async t() {
            if (++started === 2) budget.stop();
            await new Promise((resolve) => setTimeout(resolve, 5));
          },
        },
      });
      const result = await dispatcher.run(store, budget);
      expect(result).toMatchObject({ acked: 2, released: 8, stopped: "aborted" });
      expect(await countIn("done")).toBe(2);
    });

    it("settles finished messages while others still run", async () => {
      const { store, enqueue, countIn } = await context.subject(kind);
      await enqueue("quick", Array.from({ length: 9 }, String));
      await enqueue("slow", ["x"]);
      const slow = gate();
      const budget = testBudget();
      const running = createDispatcher<AnyMessage>({
        handlers: { quick: () => {}, slow: () => slow.promise },
      }).run(store, budget);
      await expect.poll(() => countIn("done")).toBe(9);
      slow.open();
      expect(await running).toMatchObject({ acked: 10 });
    });

    it("acks while it runs, even when handlers never wait", async () => {
      const { store, enqueue } = await context.subject(kind);
      await enqueue("t", Array.from({ length: 40 }, String));
      let acks = 0;
      const acksAtEnd: number[] = [];
      const watched = {
        ...store,
        ack: (...args: Parameters<typeof store.ack>) => {
          acks++;
          return store.ack(...args);
        },
      };
      let handled = 0;
      const dispatcher = createDispatcher<AnyMessage>({
        batchSize: 10,
        handlers: {
          t: () => {
            if (++handled === 40) acksAtEnd.push(acks);
          },
        },
      });
      expect(await dispatcher.run(watched, testBudget())).toMatchObject({ acked: 40 });
      expect(acksAtEnd[0]).toBeGreaterThan(0);
    });

    it("claims the next batch while handlers of the last are still running", async () => {
      const { store, enqueue } = await context.subject(kind);
      await enqueue("t", Array.from({ length: 20 }, String));
      const allStarted = gate();
      let started = 0;
      const dispatcher = createDispatcher<AnyMessage>({
        batchSize: 4,
        concurrency: 12,
        handlers: {
          async t() {
            if (++started === 12) allStarted.open();
            await allStarted.promise; // no handler ends before three batches have been claimed
          },
        },
      });
      expect(await dispatcher.run(store, testBudget())).toMatchObject({ acked: 20 });
    });

    it("acks finished messages when a claim fails, and rejects with its error", async () => {
      const { store, enqueue, countIn } = await context.subject(kind);
      await enqueue("t", ["1", "2"]);
      let claims = 0;
      const failing = {
        ...store,
        claim: (options: Parameters<typeof store.claim>[0]) => {
          claims++;
          if (claims === 2) throw new Error("the database is away");
          return store.claim(options);
        },
      };
      const dispatcher = createDispatcher<AnyMessage>({ handlers: { t: () => {} } });
      await expect(dispatcher.run(failing, testBudget())).rejects.toThrow("the database is away");
      expect(await countIn("done")).toBe(2);
    });
  });
}
