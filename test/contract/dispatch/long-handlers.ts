import { describe, expect, it } from "vitest";
import { createDispatcher } from "../../../src/dispatch/dispatcher.js";
import { createWorker } from "../../../src/dispatch/worker.js";
import { gate } from "../support/gate.js";
import { type AnyMessage, type DispatchContext, testBudget } from "./support.js";

/** Handlers that take long, or never return. */
export function longHandlerTests(context: DispatchContext): void {
  describe.each(["inbox", "outbox"] as const)("long handlers of the %s", (kind) => {
    it("ADD-16 a worker keeps claiming while a handler runs, by wake-up and by polling", async () => {
      const { store, enqueue } = await context.subject(kind);
      await enqueue("slow", ["x"]);
      const started = gate();
      const mayEnd = gate();
      const handled: string[] = [];
      const worker = createWorker({
        handlers: {
          async slow() {
            started.open();
            await mayEnd.promise;
          },
          quick: (message) => void handled.push(message.payload),
        },
        store,
        pollMs: 20,
        idlePollMs: 40,
      });
      await started.promise;
      await enqueue("quick", ["polled"]);
      await expect.poll(() => handled).toEqual(["polled"]);
      await enqueue("quick", ["woken"]);
      worker.wake();
      await expect.poll(() => handled).toEqual(["polled", "woken"]);
      mayEnd.open();
      await worker.stop();
    });

    it("ADD-16 a worker whose claims failed keeps claiming while a handler runs", async () => {
      const { store, enqueue } = await context.subject(kind);
      await enqueue("slow", ["x"]);
      const started = gate();
      const mayEnd = gate();
      const handled = gate();
      let isAway = false;
      let failures = 0;
      const worker = createWorker({
        handlers: {
          async slow() {
            started.open();
            await mayEnd.promise;
          },
          quick: () => handled.open(),
        },
        store: {
          ...store,
          async claim(options: Parameters<typeof store.claim>[0]) {
            if (!isAway) return store.claim(options);
            failures++;
            throw new Error("away");
          },
        },
        pollMs: 20,
        idlePollMs: 40,
      });
      await started.promise;
      isAway = true;
      await expect.poll(() => failures).toBeGreaterThan(1);
      isAway = false;
      await enqueue("quick", ["x"]);
      await handled.promise;
      mayEnd.open();
      await worker.stop();
    });

    it("FUN-03 ADD-16 a function's run claims messages that arrive while a handler runs", async () => {
      const { store, enqueue, countIn } = await context.subject(kind);
      await enqueue("slow", ["x"]);
      const quickHandled = gate();
      let claims = 0;
      const emptyClaim = gate();
      const watched = {
        ...store,
        async claim(options: Parameters<typeof store.claim>[0]) {
          const messages = await store.claim(options);
          if (++claims > 1 && messages.length === 0) emptyClaim.open();
          return messages;
        },
      };
      const dispatcher = createDispatcher<AnyMessage>({
        handlers: {
          async slow() {
            await emptyClaim.promise;
            await enqueue("quick", ["x"]);
            await quickHandled.promise;
          },
          quick: () => quickHandled.open(),
        },
      });
      expect(await dispatcher.run(watched, testBudget())).toMatchObject({ acked: 2, stopped: "drained" });
      expect(await countIn("done")).toBe(2);
    });

    it("ADD-16 a handler past the worker's time-out is reported, its message abandoned and its slot used again", async () => {
      const { store, enqueue, all, logs, logger } = await context.subject(kind, {
        retry: { baseMs: 3_600_000, maxMs: 3_600_000 },
      });
      await enqueue("never", ["x"]);
      await enqueue("quick", ["x"]);
      const handled = gate();
      let signal: AbortSignal | undefined;
      const worker = createWorker({
        concurrency: 1,
        logger,
        handlers: {
          never(_message, handlerContext) {
            signal = handlerContext.signal;
            return new Promise(() => {});
          },
          quick: () => handled.open(),
        },
        store,
        timeoutMs: 50,
      });
      await handled.promise;
      const line = (message: string) => logs.some((entry) => entry.message === message);
      await expect.poll(() => line("handler ignores its signal and still runs")).toBe(true);
      expect(line("as many handlers are stuck as may run at once; restart this process")).toBe(true);
      await worker.stop();
      expect(signal?.aborted).toBe(true);
      const [never] = await all();
      expect(never).toMatchObject({ attempt: 1, lastError: "The handler did not finish within 50 ms." });
    });

    it("ADD-12 ADD-16 all topics share one time-out unless a topic has its own", async () => {
      const { store, enqueue, all } = await context.subject(kind);
      await enqueue("usual", ["x"]);
      await enqueue("own", ["x"]);
      const dispatcher = createDispatcher<AnyMessage>({
        timeoutMs: 30,
        handlers: {
          usual: () => new Promise(() => {}),
          own: { timeoutMs: 60, handle: () => new Promise(() => {}) },
        },
      });
      expect(await dispatcher.run(store, testBudget())).toMatchObject({ abandoned: 2 });
      expect((await all()).map(({ lastError }) => lastError)).toEqual([
        "The handler did not finish within 30 ms.",
        "The handler did not finish within 60 ms.",
      ]);
    });

    it("ADD-16 one warning is logged for a handler that runs longer than its first lease", async () => {
      const { store, enqueue, logs, logger } = await context.subject(kind, { realTime: true });
      await enqueue("t", ["x"]);
      let renewals = 0;
      const enough = gate();
      const watched = {
        ...store,
        async renew(...args: Parameters<typeof store.renew>) {
          if (++renewals === 4) enough.open();
          return store.renew(...args);
        },
      };
      const dispatcher = createDispatcher<AnyMessage>({
        leaseMs: 900,
        logger,
        handlers: { t: () => enough.promise },
      });
      await dispatcher.run(watched, testBudget());
      expect(logs.filter((line) => line.message === "handler is still running")).toHaveLength(1);
    });
  });
}
