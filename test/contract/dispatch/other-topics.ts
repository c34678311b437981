import { describe, expect, it } from "vitest";
import { createDispatcher } from "../../../src/dispatch/dispatcher.js";
import { type QueueKind, queueKinds } from "../queue/set-up.js";
import { type AnyMessage, type DispatchContext, testBudget } from "./support.js";

/** Messages whose topic has no handler of its own: a provider sends more types than an app handles. */
export function otherTopicsTests(context: DispatchContext): void {
  describe.each(queueKinds)("topics without a handler of their own, in the %s", (kind) => {
    it("IBX-073 OBX-054 ADD-12 a topic goes to its own handler, or else to the longest pattern that matches", async () => {
      const { store, enqueue, countIn } = await context.subject(kind);
      for (const topic of ["customer.created", "customer.tax.added", "customer.tax.removed", "invoice.paid"])
        await enqueue(topic, [topic]);
      const handled: string[] = [];
      const as = (name: string) => (message: AnyMessage) => void handled.push(`${name} ${message.payload}`);
      const dispatcher = createDispatcher<AnyMessage>({
        handlers: {
          "*": as("*"),
          "customer.*": as("customer.*"),
          "customer.tax.*": as("customer.tax.*"),
          "customer.tax.removed": as("itself"),
        },
      });
      await dispatcher.run(store, testBudget());
      expect(handled.sort()).toEqual([
        "* invoice.paid",
        "customer.* customer.created",
        "customer.tax.* customer.tax.added",
        "itself customer.tax.removed",
      ]);
      expect(await countIn("done")).toBe(4);
    });

    it("ADD-12 the topics of a pattern share its concurrency", async () => {
      const { store, enqueue } = await context.subject(kind);
      for (const topic of ["a.1", "a.2", "a.3", "a.4"]) await enqueue(topic, ["x"]);
      let active = 0;
      let most = 0;
      const dispatcher = createDispatcher<AnyMessage>({
        handlers: {
          "a.*": {
            concurrency: 1,
            async handle() {
              most = Math.max(most, ++active);
              await new Promise((resolve) => setImmediate(resolve));
              active--;
            },
          },
        },
      });
      expect(await dispatcher.run(store, testBudget())).toMatchObject({ acked: 4 });
      expect(most).toBe(1);
    });

    it("ADD-12 ignored topics are acknowledged without a handler, middleware or a warning", async () => {
      const { store, enqueue, countIn, logs, logger } = await context.subject(kind);
      await enqueue("customer.created", ["x"]);
      await enqueue("customer.deleted", ["x"]);
      const handled: string[] = [];
      const dispatcher = createDispatcher<AnyMessage>({
        handlers: { "customer.deleted": ({ topic }) => void handled.push(topic) },
        ignore: ["customer.*"],
        use: [
          (message, _context, next) => {
            handled.push(`around ${message.topic}`);
            return next();
          },
        ],
        logger,
      });
      expect(await dispatcher.run(store, testBudget())).toMatchObject({ acked: 2 });
      expect(handled).toEqual(["around customer.deleted", "customer.deleted"]);
      expect(logs.filter(({ level }) => level === "warn")).toEqual([]);
      expect(await countIn("done")).toBe(2);
    });

    it.each([
      ["dead", { acked: 0, abandoned: 0, failed: 1, unhandled: 0 }, "dead"],
      ["retry", { acked: 0, abandoned: 1, failed: 0, unhandled: 0 }, "pending"],
    ] as const)(
      "IBX-074 OBX-055 ADD-12 onUnhandled: %s settles messages without a handler, with a warning",
      async (onUnhandled, result, state) => {
        const { store, enqueue, countIn, logs, logger } = await context.subject(kind);
        await enqueue("unknown", ["x"]);
        const dispatcher = createDispatcher<AnyMessage>({ handlers: {}, onUnhandled, logger });
        expect(await dispatcher.run(store, testBudget())).toMatchObject(result);
        expect(await countIn(state)).toBe(1);
        const warnings = logs.filter(({ message }) => message === "no handler for this topic");
        expect(warnings.map(({ fields }) => fields.onUnhandled)).toEqual([onUnhandled]);
        expect(await store.unhandled()).toEqual([]);
      },
    );

    it("IBX-074 OBX-055 ADD-12 onUnhandled: ack acknowledges, counts, writes one line for each topic, and lists it", async () => {
      const { store, clock, enqueue, countIn, logs, logger } = await context.subject(kind);
      const counted: unknown[] = [];
      const metrics = {
        count: (name: string, value: number, attributes: object) => counted.push([name, value, attributes]),
        duration() {},
      };
      const handlers = { handled: () => {} };
      const dispatcher = createDispatcher<AnyMessage>({ handlers, onUnhandled: "ack", logger, metrics });
      await enqueue("unknown", ["1", "2"]);
      await enqueue("other", ["3"]);
      await enqueue("handled", ["4"]);
      expect(await dispatcher.run(store, testBudget())).toMatchObject({ acked: 4, unhandled: 3 });
      const first = clock();
      clock.advance(60_000);
      await enqueue("unknown", ["5"]);
      expect(await dispatcher.run(store, testBudget())).toMatchObject({ acked: 1, unhandled: 1 });
      expect(await countIn("done")).toBe(5);
      const warnings = logs.filter(({ message }) => message.startsWith("no handler for this topic"));
      expect(warnings.map(({ fields }) => fields.topic).sort()).toEqual(["other", "unknown"]);
      expect(await store.unhandled()).toEqual([
        { topic: "unknown", messages: 3, lastSeenAt: clock() },
        { topic: "other", messages: 1, lastSeenAt: first },
      ]);
      expect(counted.filter((one) => (one as unknown[])[0] === "oncebox.unhandled")).toHaveLength(4);
    });
  });

  describe("topics without a handler whose source has others", () => {
    const dispatched = async (
      kind: QueueKind,
      handlers: readonly string[],
      topics: readonly string[],
      sources: readonly string[] = ["undefined", "test"],
    ): Promise<readonly string[]> => {
      const { store, enqueue } = await context.subject(kind);
      for (const topic of topics) await enqueue(topic, ["x"]);
      const dispatcher = createDispatcher<AnyMessage>({
        handlers: Object.fromEntries(handlers.map((topic) => [topic, () => {}])),
        ignore: ["test.ignored"],
        onUnhandled: "bySource",
        sources,
        logger: false,
      });
      const { acked, abandoned, unhandled } = await dispatcher.run(store, testBudget());
      expect(acked + abandoned).toBe(topics.length);
      const listed = (await store.unhandled()).map(({ topic }) => topic).sort();
      expect(listed).toHaveLength(unhandled);
      return listed;
    };

    // The messages of the tests have the source "test".
    it("ADD-12 ADD-22 onUnhandled: bySource acknowledges and lists what its source sends besides, and retries the rest", async () => {
      const topics = ["test.paid", "test.created", "test.ignored", "test", "testing.created", "created"];
      const ofSource = ["test", "test.created"];
      expect(await dispatched("inbox", ["test.paid"], topics)).toEqual(ofSource);
      expect(await dispatched("inbox", ["test.paid.*"], topics)).toEqual([...ofSource, "test.paid"]);
      expect(await dispatched("inbox", ["other.paid", "testing.paid", "tes"], topics)).toEqual([]);
      expect(await dispatched("inbox", ["test.paid"], topics, ["other"])).toEqual([]); // the source is no webhook's
      expect(await dispatched("outbox", ["test.paid", "undefined.paid"], [...topics, "undefined.x"])).toEqual(
        [],
      );
    });
  });
}
