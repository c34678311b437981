import { describe, expect, it } from "vitest";
import { createDispatcher } from "../../../src/dispatch/dispatcher.js";
import type { HandlerContext } from "../../../src/dispatch/handlers.js";
import { permanentFailure, retryAfter } from "../../../src/dispatch/settlement.js";
import type { StandardSchema } from "../../../src/queue/standard-schema.js";
import { queueKinds } from "../queue/set-up.js";
import { type AnyMessage, type DispatchContext, testBudget } from "./support.js";

/** Which handler gets a message, and how its outcome settles it. */
export function routingTests(context: DispatchContext): void {
  describe.each(queueKinds)("routing and settlement of the %s", (kind) => {
    const budget = testBudget;

    it("IBX-073 OBX-054 routes by topic, case-sensitively", async () => {
      const { store, enqueue, countIn } = await context.subject(kind);
      await enqueue("order.created", ["a", "b"]);
      await enqueue("Order.Created", ["c"]);
      const handled: string[] = [];
      const dispatcher = createDispatcher<AnyMessage>({
        handlers: {
          "order.created": (message) => void handled.push(`lower ${message.payload}`),
          "Order.Created": (message) => void handled.push(`upper ${message.payload}`),
        },
      });
      const result = await dispatcher.run(store, budget());
      expect(handled.sort()).toEqual(["lower a", "lower b", "upper c"]);
      expect(result).toMatchObject({ claimed: 3, handled: 3, acked: 3, stopped: "drained" });
      expect(await countIn("done")).toBe(3);
    });

    it("IBX-074 OBX-055 a topic without a handler is abandoned with a warning, and ends dead", async () => {
      const { store, enqueue, countIn, clock, logs, logger, all } = await context.subject(kind);
      await enqueue("unknown", ["x"]);
      const dispatcher = createDispatcher<AnyMessage>({ handlers: {}, logger, retry: { maxAttempts: 2 } });
      expect(await dispatcher.run(store, budget())).toMatchObject({ abandoned: 1, acked: 0 });
      expect(logs.filter((line) => line.level === "warn" && line.fields.topic === "unknown")).toHaveLength(1);
      expect((await all())[0]).toMatchObject({ attempt: 1, lastError: expect.stringContaining('"unknown"') });
      clock.advance(2_000);
      expect(await dispatcher.run(store, budget())).toMatchObject({ failed: 1 });
      expect(await countIn("dead")).toBe(1);
    });

    it("IBX-075 IBX-083 IBX-084 OBX-056 OBX-064 OBX-065 a throwing handler is retried with back-off and fails after the last attempt", async () => {
      const { store, enqueue, clock, all, countIn } = await context.subject(kind);
      await enqueue("t", ["x"]);
      const attempts: number[] = [];
      const dispatcher = createDispatcher<AnyMessage>({
        handlers: {
          t: {
            retry: { maxAttempts: 3 },
            handle(message) {
              attempts.push(message.attempt);
              throw new Error(`attempt ${message.attempt}`);
            },
          },
        },
      });
      await dispatcher.run(store, budget());
      expect((await all())[0]).toMatchObject({ attempt: 1, lastError: "Error: attempt 0" });
      clock.advance(1_999);
      expect(await dispatcher.run(store, budget())).toMatchObject({ claimed: 0 });
      clock.advance(1);
      await dispatcher.run(store, budget());
      clock.advance(4_000);
      expect(await dispatcher.run(store, budget())).toMatchObject({ failed: 1, abandoned: 0 });
      expect(attempts).toEqual([0, 1, 2]);
      expect(await countIn("dead")).toBe(1);
    });

    it("MID-09 IBX-084 OBX-065 a topic's maxAttempts: Infinity replaces the limits of dispatcher and store", async () => {
      const { store, enqueue, clock, all, countIn } = await context.subject(kind);
      await enqueue("t", ["x"]);
      let isUp = false;
      const dispatcher = createDispatcher<AnyMessage>({
        retry: { maxAttempts: 1 },
        handlers: {
          t: {
            retry: { maxAttempts: Number.POSITIVE_INFINITY },
            handle() {
              if (!isUp) throw new Error("down");
            },
          },
        },
      });
      for (let attempt = 1; attempt <= 12; attempt++) {
        expect(await dispatcher.run(store, budget())).toMatchObject({ abandoned: 1, failed: 0 });
        expect(await all()).toMatchObject([{ attempt }]);
        clock.advance(60_000);
      }
      isUp = true;
      await dispatcher.run(store, budget());
      expect(await countIn("done")).toBe(1);
    });

    it("IBX-076 OBX-057 a handler gets the whole message, a signal and the store's name", async () => {
      const { store, enqueue } = await context.subject(kind);
      await enqueue("t", ["payload"]);
      let seen: { message: AnyMessage; context: HandlerContext } | undefined;
      const dispatcher = createDispatcher<AnyMessage>({
        handlers: {
          t(message, handlerContext) {
            seen = { message, context: handlerContext };
          },
        },
      });
      await dispatcher.run(store, budget());
      expect(seen!.message).toMatchObject({
        topic: "t",
        payload: "payload",
        attempt: 0,
        messageId: expect.any(String),
      });
      expect(seen!.context.signal).toBeInstanceOf(AbortSignal);
      expect(seen!.context).toMatchObject({ store: store.id, tx: undefined });
    });

    it("IBX-078 OBX-059 FUN-05 two dispatchers never handle the same message at the same time", async () => {
      const { store, enqueue, countIn } = await context.subject(kind);
      await enqueue(
        "t",
        Array.from({ length: 60 }, (_, i) => String(i)),
      );
      const active = new Set<number>();
      let overlaps = 0;
      const runs = new Map<number, number>();
      const handle = async (message: AnyMessage) => {
        if (active.has(message.seq)) overlaps++;
        active.add(message.seq);
        runs.set(message.seq, (runs.get(message.seq) ?? 0) + 1);
        await new Promise((resolve) => setImmediate(resolve));
        active.delete(message.seq);
      };
      const dispatcher = () => createDispatcher<AnyMessage>({ handlers: { t: handle }, batchSize: 7 });
      await Promise.all([dispatcher().run(store, budget()), dispatcher().run(store, budget())]);
      expect(overlaps).toBe(0);
      expect([...runs.values()]).toEqual(Array(60).fill(1));
      expect(await countIn("done")).toBe(60);
    });

    it("IBX-079 OBX-060 ADD-12 handlers run concurrently up to the dispatcher's and the topic's bounds", async () => {
      const { store, enqueue } = await context.subject(kind);
      await enqueue("wide", Array.from({ length: 8 }, String));
      await enqueue("narrow", Array.from({ length: 8 }, String));
      const active = { wide: 0, narrow: 0 };
      const most = { wide: 0, narrow: 0, all: 0 };
      const handle = (topic: "wide" | "narrow") => async () => {
        active[topic]++;
        most[topic] = Math.max(most[topic], active[topic]);
        most.all = Math.max(most.all, active.wide + active.narrow);
        await new Promise((resolve) => setTimeout(resolve, 2));
        active[topic]--;
      };
      const dispatcher = createDispatcher<AnyMessage>({
        concurrency: 5,
        handlers: { wide: handle("wide"), narrow: { concurrency: 2, handle: handle("narrow") } },
      });
      expect(await dispatcher.run(store, budget())).toMatchObject({ acked: 16 });
      expect(most).toEqual({ wide: 5, narrow: 2, all: 5 });
    });

    it("ADD-12 a permanent failure is dead at once, thrown or returned", async () => {
      const { store, enqueue, all, countIn } = await context.subject(kind);
      await enqueue("thrown", ["x"]);
      await enqueue("returned", ["x"]);
      const dispatcher = createDispatcher<AnyMessage>({
        handlers: {
          thrown() {
            throw permanentFailure("the order is gone");
          },
          returned: () => permanentFailure("the order is gone"),
        },
      });
      expect(await dispatcher.run(store, budget())).toMatchObject({ failed: 2, acked: 0 });
      expect(await countIn("dead")).toBe(2);
      for (const message of await all()) expect(message.lastError).toContain("the order is gone");
    });

    it("ADD-12 retryAfter sets the delay", async () => {
      const { store, enqueue, clock } = await context.subject(kind);
      await enqueue("t", ["x"]);
      let runs = 0;
      const dispatcher = createDispatcher<AnyMessage>({
        handlers: {
          t() {
            runs++;
            if (runs === 1) throw retryAfter(90_000, "rate limited");
          },
        },
      });
      await dispatcher.run(store, budget());
      clock.advance(89_999);
      expect(await dispatcher.run(store, budget())).toMatchObject({ claimed: 0 });
      clock.advance(1);
      expect(await dispatcher.run(store, budget())).toMatchObject({ acked: 1 });
    });

    it("ADD-10 ADD-12 a message that is put off without being tried uses no attempt", async () => {
      const { store, enqueue, clock, all, countIn } = await context.subject(kind);
      await enqueue("t", ["x"]);
      const ends = [
        () => {
          throw new Error("tried once");
        },
        ...Array.from({ length: 3 }, () => () => {
          throw retryAfter(5_000, "put off", { costsAttempt: false });
        }),
        () => {
          throw new Error("tried twice");
        },
      ];
      const dispatcher = createDispatcher<AnyMessage>({
        handlers: { t: () => ends.shift()!() },
        retry: { maxAttempts: 2, baseMs: 1_000, factor: 1, maxMs: 1_000 },
      });
      await dispatcher.run(store, budget());
      for (let putOff = 1; putOff <= 3; putOff++) {
        clock.advance(5_000);
        await dispatcher.run(store, budget());
        expect(await all()).toMatchObject([{ attempt: 1, lastError: "RetryAfter: put off" }]);
        expect(await dispatcher.run(store, budget())).toMatchObject({ claimed: 0 });
      }
      clock.advance(5_000);
      await dispatcher.run(store, budget());
      expect(await countIn("dead")).toBe(1);
    });

    it("ADD-13 a payload is parsed and checked by a schema; one that does not fit is dead, with the path in its error", async () => {
      const { store, enqueue, all, countIn } = await context.subject(kind);
      await enqueue("t", ['{"amount":42}', '{"amount":"secret-words"}', "not json"]);
      const amounts: number[] = [];
      const dispatcher = createDispatcher({
        store,
        handlers: { t: { schema: amountSchema, handle: ({ data }) => void amounts.push(data.amount) } },
      });
      expect(await dispatcher.run(store, budget())).toMatchObject({ acked: 1, failed: 2 });
      expect(amounts).toEqual([42]);
      expect(await countIn("dead")).toBe(2);
      const errors = (await all()).map((message) => message.lastError);
      expect(errors[1]).toContain("amount: must be a number");
      expect(errors[2]).toContain("not JSON");
      expect(errors.join()).not.toContain("secret-words");
    });

    it("ADD-13 a handler reads the payload as data; a payload that is not JSON makes the message dead when it is read", async () => {
      const { store, enqueue, all, countIn } = await context.subject(kind);
      await enqueue("t", ['{"amount":42}', "not json: secret-words"]);
      await enqueue("text", ["not json"]);
      const seen: unknown[] = [];
      const dispatcher = createDispatcher<AnyMessage>({
        handlers: {
          t: (message) => void seen.push(message.data),
          text: (message) => void seen.push(message.payload),
        },
      });
      expect(await dispatcher.run(store, budget())).toMatchObject({ acked: 2, failed: 1 });
      expect(seen).toEqual([{ amount: 42 }, "not json"]);
      expect(await countIn("dead")).toBe(1);
      const errors = (await all()).map(({ lastError }) => lastError);
      expect(errors).toContain('PayloadNotJsonError: The payload of "t" is not JSON.');
    });

    it("runs middleware around every handler, the first outermost", async () => {
      const { store, enqueue } = await context.subject(kind);
      await enqueue("t", ["x"]);
      const order: string[] = [];
      const wrap =
        (name: string) => async (_message: AnyMessage, _context: unknown, next: () => Promise<unknown>) => {
          order.push(`${name} in`);
          await next();
          order.push(`${name} out`);
        };
      const dispatcher = createDispatcher<AnyMessage>({
        handlers: { t: () => void order.push("handler") },
        use: [wrap("a"), wrap("b")],
      });
      await dispatcher.run(store, budget());
      expect(order).toEqual(["a in", "b in", "handler", "b out", "a out"]);
    });

    it("IBX-090 IBX-110 IBX-111 IBX-127 OBX-071 OBX-087 OBX-088 OBX-106 logs invocations as info and exceptions as error, with ids and the store, without payloads and without the error's text", async () => {
      const { store, enqueue, logs, logger, all } = await context.subject(kind);
      await enqueue("good", ["payload-one"]);
      await enqueue("bad", ["payload-two"]);
      const dispatcher = createDispatcher<AnyMessage>({
        logger,
        handlers: {
          good: () => {},
          bad() {
            throw new Error("cannot read payload-two of 4711");
          },
        },
      });
      logs.length = 0;
      await dispatcher.run(store, budget());
      const handled = logs.filter((line) => line.level === "info" && line.message === "handle");
      expect(handled.map((line) => line.fields.topic).sort()).toEqual(["bad", "good"]);
      for (const line of handled) {
        expect(line.fields.messageId).toEqual(expect.any(String));
        expect(line.fields.store).toBe(store.id);
      }
      const errors = logs.filter((line) => line.level === "error");
      expect(errors).toHaveLength(1);
      expect(errors[0]!.fields).toMatchObject({
        topic: "bad",
        messageId: expect.any(String),
        error: "Error",
        stack: expect.stringMatching(/^at .*bad/),
      });
      expect(JSON.stringify(logs)).not.toMatch(/payload-|4711/i);
      const { lastError } = (await all()).find(({ topic }) => topic === "bad")!;
      expect(lastError).toBe("Error: cannot read [payload] of 4711");
    });
  });
}

const amountSchema: StandardSchema<{ amount: number }> = {
  "~standard": {
    version: 1,
    vendor: "test",
    validate: (value) =>
      typeof (value as { amount?: unknown }).amount === "number"
        ? { value: value as { amount: number } }
        : { issues: [{ message: "must be a number", path: ["amount"] }] },
  },
};
