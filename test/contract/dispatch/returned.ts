import { describe, expect, it } from "vitest";
import { createDispatcher } from "../../../src/dispatch/dispatcher.js";
import type { HandlerResult } from "../../../src/dispatch/handlers.js";
import { permanentFailure, retryAfter } from "../../../src/dispatch/settlement.js";
import { InvalidArgumentError } from "../../../src/errors.js";
import { createOutbox } from "../../../src/outbox/outbox.js";
import { newOwnerToken } from "../../../src/queue/leases.js";
import type { OutboxKey, OutboxMessage } from "../../../src/queue/message.js";
import type { StandardSchema } from "../../../src/queue/standard-schema.js";
import type { Database } from "../../../src/sql/dialect.js";
import { type SqlExecutor, statement } from "../../../src/sql/driver.js";
import { openSqlite } from "../../../src/sql/sqlite/index.js";
import { testClock } from "../harness.js";
import { queueKinds, setUpQueue } from "../queue/set-up.js";
import { createQueueContext, messages } from "../queue/support.js";
import { forbid } from "../support/database.js";
import { gate } from "../support/gate.js";
import { fieldsOf, type LogLine, recordingLogger } from "../support/recording-logger.js";
import { brokenConnection, deadlock, watched } from "../support/watched.js";
import { type AnyMessage, type DispatchContext, testBudget } from "./support.js";

type Handle = (message: AnyMessage) => HandlerResult | Promise<HandlerResult>;

/** Messages that handlers return: stored in the outbox with the acknowledgement, or not at all. */
export function returnedTests(context: DispatchContext): void {
  describe.each(queueKinds)("messages that handlers of the %s return", (kind) => {
    const { queue, states, keyOf } = createQueueContext(kind, context.database);

    /** A queue with messages of the topic "t", and an outbox beside it, both on the same database. */
    const setUp = async ({
      count = 1,
      wrap = (db) => db,
    }: {
      count?: number;
      wrap?: (db: Database) => Database;
    } = {}) => {
      const clock = testClock();
      const db = watched(wrap(context.database().db));
      const handled = await queue({ clock });
      const filled = await setUpQueue<OutboxKey>(context.database(), "outbox", { clock });
      const outbox = createOutbox(db, filled.settings);
      const keys = await handled.store.add(messages(count, { topic: "t" }));
      const logs: LogLine[] = [];
      const options = { logger: recordingLogger(logs), random: () => 0 };
      return {
        ...handled,
        db,
        clock,
        logs,
        keys,
        outbox,
        outboxLog: filled.log,
        outboxNames: filled.names,
        settings: filled.settings,
        store: handled.on(db),
        options,
        /** Runs a dispatcher whose handler of "t" is this. */
        run: (handle: Handle) =>
          createDispatcher<AnyMessage>({ ...options, outbox, handlers: { t: handle } }).run(
            handled.on(db),
            testBudget(),
          ),
        /** What is in the outbox, in the order in which it was enqueued. */
        sent: async (): Promise<readonly OutboxMessage[]> => (await outbox.list({ limit: 1_000 })).messages,
        first: async () => (await handled.store.get(keyOf(keys[0]!)))!,
      };
    };

    const payloads = (sent: readonly OutboxMessage[]) => sent.map(({ payload }) => payload);

    it("ADD-21 one message is stored with the acknowledgement, with the correlation of the handled message", async () => {
      const { run, sent, first, outboxLog, keys } = await setUp();
      expect(await run(({ payload }) => ({ topic: "receipt.send", data: { for: payload } }))).toMatchObject({
        acked: 1,
        lost: 0,
      });
      const handled = await first();
      expect(handled.state).toBe(states.done);
      const key = keys[0] as { readonly messageId?: string; readonly id?: string };
      const [stored, ...others] = await sent();
      expect(others).toEqual([]);
      expect(stored).toMatchObject({
        topic: "receipt.send",
        payload: '{"for":"000"}',
        data: { for: "000" },
        correlationId: key.messageId ?? key.id,
        attempt: 0,
      });
      expect(fieldsOf(outboxLog, "info", "enqueue")).toMatchObject([
        { topic: "receipt.send", id: stored!.id, transactional: false },
      ]);
    });

    it("ADD-21 MID-12 a list is stored in its order, with every field that a message can have", async () => {
      const { run, sent, clock } = await setUp();
      const soon = new Date(clock().getTime() + 5_000);
      const late = new Date(clock().getTime() + 60_000);
      await run(async () => [
        {
          topic: "a",
          type: "com.example.a",
          payload: "plain",
          correlationId: "own",
          headers: { x: "1" },
          attributes: { v: 2, w: "text" },
        },
        { topic: "b", data: null, correlationId: null, dueAt: soon, expiresAt: late },
        { topic: "c", data: [1], messageId: "0190d5c8-7b7e-7000-8000-000000000001" },
      ]);
      expect(await sent()).toMatchObject([
        {
          topic: "a",
          type: "com.example.a",
          payload: "plain",
          correlationId: "own",
          headers: { x: "1", v: "2", w: "text" },
        },
        { topic: "b", payload: "null", correlationId: null, dueAt: soon, expiresAt: late },
        { topic: "c", payload: "[1]", messageId: "0190d5c8-7b7e-7000-8000-000000000001" },
      ]);
    });

    it("ADD-21 a settled batch costs one round trip, with returned messages and without", async () => {
      const { sent, db, store, outbox, options } = await setUp({ count: 0 });
      /** The calls that settle so many messages whose handlers end at the same time. */
      const callsFor = async (count: number, handle: Handle): Promise<readonly string[]> => {
        await store.add(messages(count, { topic: "t" }));
        const all = gate();
        let started = 0;
        const dispatcher = createDispatcher<AnyMessage>({
          ...options,
          outbox,
          concurrency: count,
          handlers: {
            async t(message) {
              if (++started === count) all.open();
              await all.promise;
              return handle(message);
            },
          },
        });
        db.calls.length = 0;
        expect(await dispatcher.run(store, testBudget())).toMatchObject({ acked: count });
        return db.calls.filter((name) => name !== "claim");
      };
      const both = db.dialect.embedded ? "transaction" : "ack and enqueue";
      expect(await callsFor(20, ({ payload }) => ({ topic: "out", payload }))).toEqual([both]);
      expect(payloads(await sent()).sort()).toEqual(messages(20).map(({ payload }) => payload));
      expect(await callsFor(20, () => {})).toEqual(["ack"]);
      // some return messages and some do not: what is sent cannot delay the others
      const some: Handle = ({ payload }) => (payload < "002" ? { topic: "out", payload } : undefined);
      expect([...(await callsFor(4, some))].sort()).toEqual(["ack", both]);
      expect(await sent()).toHaveLength(22);
    });

    it("ADD-21 nothing is stored for a message whose lease was lost, and the worker that has it now stores its own", async () => {
      const { run, sent, store, clock, outbox, options } = await setUp();
      const thief = newOwnerToken();
      const robbed = createDispatcher<AnyMessage>({
        ...options,
        outbox,
        handlers: {
          async t() {
            clock.advance(3_600_000);
            expect(await store.claim({ owner: thief })).toHaveLength(1);
            return { topic: "out", payload: "of the first" };
          },
        },
      });
      let claims = 0;
      // only once: claiming ahead, the dispatcher could be faster than the thief
      const claim: typeof store.claim = async (call) => (claims++ === 0 ? store.claim(call) : []);
      expect(await robbed.run({ ...store, claim }, testBudget())).toMatchObject({ acked: 0, lost: 1 });
      expect(await sent()).toEqual([]);
      clock.advance(3_600_000);
      expect(await run(() => ({ topic: "out", payload: "of the second" }))).toMatchObject({ acked: 1 });
      expect(payloads(await sent())).toEqual(["of the second"]);
    });

    it("ADD-21 of a batch, only what belongs to messages that the owner still held is stored, in order", async () => {
      const { store, outbox, sent, owner } = await setUp({ count: 4 });
      const claimed = await store.claim({ owner });
      await store.release(owner, [claimed[1]!]);
      await store.ack(owner, [claimed[3]!]);
      const outgoing = (message: AnyMessage) =>
        outbox.prepare(
          [1, 2].map((n) => ({ topic: "out", payload: `${message.payload} ${n}`, partitionKey: "p" })),
        );
      const settlement = await store.ack(
        owner,
        claimed.map((message) => ({ message, outgoing: outgoing(message) })),
      );
      expect(settlement.changed).toEqual([claimed[0], claimed[2]]);
      expect(settlement.lost).toEqual([claimed[1], claimed[3]]);
      expect(payloads(await sent())).toEqual(["000 1", "000 2", "002 1", "002 2"]);
      // none of them is held any more
      expect(
        (await store.ack(owner, [{ message: claimed[0]!, outgoing: outgoing(claimed[0]!) }])).lost,
      ).toHaveLength(1);
      expect(await sent()).toHaveLength(4);
    });

    it("ADD-21 more messages than one statement takes are stored with their acknowledgements", async () => {
      const { store, outbox, sent, owner } = await setUp({ count: 3 });
      const claimed = await store.claim({ owner });
      const many = (message: AnyMessage) =>
        outbox.prepare(
          Array.from({ length: 400 }, (_, n) => ({
            topic: "out",
            payload: `${message.payload} ${n}`,
            partitionKey: message.payload,
          })),
        );
      const acknowledgements = claimed.map((message) => ({ message, outgoing: many(message) }));
      expect((await store.ack(owner, acknowledgements)).changed).toHaveLength(3);
      expect((await outbox.stats()).counts.Ready).toBe(1_200);
      expect((await sent()).slice(0, 3).map(({ payload }) => payload)).toEqual(["000 0", "000 1", "000 2"]);
    });

    it("ADD-21 a handler that throws, fails or asks for a later retry stores nothing", async () => {
      const ends: readonly [Handle, string][] = [
        [() => Promise.reject(new Error("503")), states.waiting],
        [() => retryAfter(5_000), states.waiting],
        [() => permanentFailure("410"), states.dead],
      ];
      for (const [handle, state] of ends) {
        const { run, sent, first } = await setUp();
        await run(handle);
        expect((await first()).state).toBe(state);
        expect(await sent()).toEqual([]);
      }
    });

    it("ADD-21 a handler that returns after its time-out stores nothing", async () => {
      const { outbox, store, options, sent, first } = await setUp();
      const dispatcher = createDispatcher<AnyMessage>({
        ...options,
        outbox,
        handlers: {
          t: {
            timeoutMs: 20,
            handle: (_, { signal }) =>
              new Promise((resolve) => {
                signal.addEventListener("abort", () => resolve({ topic: "out", payload: "late" }));
              }),
          },
        },
      });
      expect(await dispatcher.run(store, testBudget())).toMatchObject({ acked: 0, abandoned: 1 });
      expect(await first()).toMatchObject({ attempt: 1 });
      expect(await sent()).toEqual([]);
    });

    it("ADD-21 of messages with one natural key the first is stored, however many handlers return it", async () => {
      const { run, sent, store, outbox, outboxLog } = await setUp({ count: 3 });
      const existing = await outbox.enqueue({ topic: "once", payload: "before", naturalKey: "k-0" });
      await run(({ payload }) => [
        { topic: "once", payload, naturalKey: "k-0" },
        { topic: "once", payload, naturalKey: "k-1" },
        { topic: "once", payload, naturalKey: `k-1-${payload}` },
      ]);
      const stored = await sent();
      expect(stored.map(({ naturalKey }) => naturalKey).sort()).toEqual([
        "k-0",
        "k-1",
        "k-1-000",
        "k-1-001",
        "k-1-002",
      ]);
      expect(stored.find(({ naturalKey }) => naturalKey === "k-0")).toMatchObject({
        id: existing,
        payload: "before",
      });

      // one that exists, in one call with one that does not
      await store.add(messages(1, { topic: "t" }));
      await run(() => [
        { topic: "once", payload: "again", naturalKey: "k-1" },
        { topic: "once", payload: "new", naturalKey: "k-2" },
      ]);
      expect((await sent()).map(({ payload }) => payload).filter((payload) => payload === "again")).toEqual(
        [],
      );
      const reported = fieldsOf(outboxLog, "info", "enqueue").slice(-2);
      const known = stored.find(({ naturalKey }) => naturalKey === "k-1")!.id;
      expect(reported.find(({ id }) => id === known)).toMatchObject({ existing: true });
      expect(reported.find(({ id }) => id !== known)!.existing).toBeUndefined();
    });

    it("ADD-21 of two messages with one natural key, that of the acknowledged message is stored", async () => {
      const { store, outbox, sent, owner } = await setUp({ count: 2 });
      const claimed = await store.claim({ owner });
      await store.release(owner, [claimed[0]!]);
      await store.ack(
        owner,
        claimed.map((message) => ({
          message,
          outgoing: outbox.prepare({ topic: "once", payload: message.payload, naturalKey: "k" }),
        })),
      );
      expect(payloads(await sent())).toEqual(["001"]);
    });

    it("ADD-21 ADD-01 messages with one partition key are handled in the order in which they were returned", async () => {
      const { run, outbox, store, options } = await setUp();
      await run(() =>
        ["1", "2", "3"].map((payload) => ({ topic: "out", payload, partitionKey: "customer" })),
      );
      await store.add(messages(1, { topic: "t" }));
      await run(() => ["4", "5"].map((payload) => ({ topic: "out", payload, partitionKey: "customer" })));
      const seen: string[] = [];
      const publisher = createDispatcher<OutboxMessage>({
        ...options,
        handlers: {
          out: async ({ payload }) => {
            await Promise.resolve();
            seen.push(payload);
          },
        },
      });
      await publisher.run(outbox, testBudget());
      expect(seen).toEqual(["1", "2", "3", "4", "5"]);
    });

    it("ADD-21 a message that expires is dead, as one that was enqueued", async () => {
      const { run, outbox, clock, sent, options } = await setUp();
      await run(() => ({ topic: "out", payload: "", expiresAt: new Date(clock().getTime() + 1_000) }));
      clock.advance(2_000);
      const publisher = createDispatcher<OutboxMessage>({ ...options, handlers: { out: () => {} } });
      expect(await publisher.run(outbox, testBudget())).toMatchObject({ claimed: 0 });
      expect(await sent()).toMatchObject([{ state: "Failed" }]);
    });

    describe("with a transactional handler", () => {
      const inTransaction = async (
        handle: (message: AnyMessage, tx: SqlExecutor) => Promise<HandlerResult>,
      ) => {
        const made = await setUp();
        const { raw, schema, db } = context.database();
        const table = db.dialect.names(
          "inbox",
          schema ?? "",
          `returned_${newOwnerToken().slice(0, 8)}`,
        ).message;
        await raw(`create table ${table} (payload varchar(100) not null)`);
        const insert = statement("business write", `insert into ${table} (payload) values (:payload)`);
        const dispatcher = createDispatcher<AnyMessage, SqlExecutor>({
          ...made.options,
          outbox: made.outbox,
          handlers: {
            t: {
              transactional: true,
              async handle(message, { tx }) {
                await tx.query(insert, { payload: message.payload });
                return handle(message, tx);
              },
            },
          },
        });
        const rows = async () => (await raw(`select payload from ${table}`)).length;
        return { ...made, rows, run: () => dispatcher.run(made.store, testBudget()) };
      };

      it("ADD-21 ADD-04 business writes, acknowledgement and returned messages commit together", async () => {
        const { run, sent, rows, first, outboxLog } = await inTransaction(async ({ payload }) => [
          { topic: "out", payload, naturalKey: "k" },
          { topic: "out", payload, partitionKey: "p" },
        ]);
        expect(await run()).toMatchObject({ acked: 1 });
        expect(await sent()).toMatchObject([{ naturalKey: "k" }, { partitionKey: "p" }]);
        expect(await rows()).toBe(1);
        expect((await first()).state).toBe(states.done);
        expect(fieldsOf(outboxLog, "info", "enqueue")).toMatchObject([
          { transactional: true },
          { transactional: true },
        ]);
      });

      it("ADD-21 ADD-04 nothing is stored when the lease was lost", async () => {
        const { store, outbox, owner, sent } = await setUp();
        const [message] = await store.claim({ owner });
        await store.release(owner, [message!]);
        const outgoing = outbox.prepare({ topic: "out", payload: "" });
        const settlement = await store.transaction((tx) =>
          store.ack(owner, [{ message: message!, outgoing }], { tx }),
        );
        expect(settlement.lost).toHaveLength(1);
        expect(await sent()).toEqual([]);
      });

      it("ADD-21 ADD-04 nothing is stored when the handler throws", async () => {
        const { run, sent, rows } = await inTransaction(async () => {
          throw new Error("503");
        });
        expect(await run()).toMatchObject({ abandoned: 1 });
        expect(await sent()).toEqual([]);
        expect(await rows()).toBe(0);
      });

      it("ADD-21 ADD-04 a wrong message rolls everything back and makes the handled message dead", async () => {
        const { run, sent, rows, first } = await inTransaction(async () => [
          { topic: "out", payload: "good" },
          { topic: "", payload: "bad" },
        ]);
        expect(await run()).toMatchObject({ failed: 1 });
        expect(await first()).toMatchObject({
          state: states.dead,
          lastError: expect.stringContaining("topic"),
        });
        expect(await sent()).toEqual([]);
        expect(await rows()).toBe(0);
      });
    });

    it("ADD-21 a wrong message makes the handled message dead at once, and the error says what is wrong", async () => {
      const circular: Record<string, unknown> = {};
      circular.self = circular;
      const wrong: readonly [result: unknown, says: RegExp][] = [
        [{ topic: "", data: 1 }, /topic/],
        [{ topic: 7, data: 1 }, /topic/],
        [{ topic: "out" }, /\{ topic, data \}/],
        [{ topic: "out", data: 1, payload: "1" }, /payload or data/],
        [{ topic: "out", data: 1, partitonKey: "p" }, /partitonKey/],
        [{ topic: "out", data: circular }, /circular/],
        [{ topic: "out", data: () => 1 }, /JSON/],
        [{ topic: "out", payload: { an: "object" } }, /payload/],
        [{ topic: "out", data: 1, dueAt: "tomorrow" }, /dueAt/],
        [[{ topic: "out", data: 1 }, "not a message"], /list of messages/],
        [[{ topic: "out", data: 1 }, { data: 1 }], /no topic/],
        [{ data: 1 }, /no topic/],
        [{ payload: "1", topik: "out" }, /no topic/],
        [[{ data: 1 }], /no topic/],
        [[{ topic: "out", data: 1 }, undefined], /list of messages/],
      ];
      const { run, sent, store } = await setUp({ count: 0 });
      for (const [result, says] of wrong) {
        const [key] = await store.add(messages(1, { topic: "t" }));
        let runs = 0;
        const handle = (): HandlerResult => {
          runs++;
          return result as HandlerResult;
        };
        expect(await run(handle)).toMatchObject({ failed: 1, acked: 0 });
        expect(await store.get(keyOf(key!))).toMatchObject({
          state: states.dead,
          attempt: 1,
          lastError: expect.stringMatching(says),
        });
        expect(runs).toBe(1);
      }
      expect(await sent()).toEqual([]);
    });

    it("ADD-21 data that does not fit the schema of its topic makes the handled message dead", async () => {
      const schema: StandardSchema<{ id: number }> = {
        "~standard": {
          version: 1,
          vendor: "test",
          validate: async (value) =>
            typeof (value as { id?: unknown } | null)?.id === "number"
              ? { value: value as { id: number } }
              : { issues: [{ message: "Expected number", path: ["id"] }] },
        },
      };
      const { store, db, settings, options, sent } = await setUp({ count: 0 });
      const outbox = createOutbox(db, { ...settings, topics: { out: schema } });
      const dispatch = async (result: HandlerResult) => {
        const [key] = await store.add(messages(1, { topic: "t" }));
        const handlers = { t: () => result as never };
        await createDispatcher({ ...options, store, outbox, handlers }).run(store, testBudget());
        return store.get(keyOf(key!));
      };
      const fitting = { topic: "out", data: { id: 6 } };
      expect(await dispatch([fitting, { topic: "out", data: { id: "seven" } }])).toMatchObject({
        state: states.dead,
        lastError: expect.stringContaining('The data of "out" does not fit its schema: id: Expected number'),
      });
      expect(await dispatch([fitting, { topic: "other", data: "anything" }])).toMatchObject({
        state: states.dead,
        lastError: expect.stringContaining('The topic "other" is none of topics: out'),
      });
      expect(await sent()).toEqual([]);
      await dispatch({ topic: "out", data: { id: 7 } });
      expect(payloads(await sent())).toEqual(['{"id":7}']);
    });

    it("ADD-21 what is no message is ignored, with one warning for each topic", async () => {
      const { run, sent, store, logs, options, outbox } = await setUp({ count: 0 });
      const results: readonly unknown[] = [7, "id", [{ id: 1 }], { rowCount: 1 }, new Map(), true];
      await store.add(messages(results.length, { topic: "t" }));
      let next = 0;
      expect(await run(() => results[next++] as HandlerResult)).toMatchObject({ acked: results.length });
      const warnings = () => fieldsOf(logs, "warn", "what the handler returned is no message and is ignored");
      expect(warnings()).toEqual([{ topic: "t", store: store.id }]);

      logs.length = 0;
      const nothing = createDispatcher<AnyMessage>({ ...options, outbox, handlers: { "*": () => [] } });
      await store.add(messages(1, { topic: "t" }));
      await nothing.run(store, testBudget());
      expect(warnings()).toEqual([]);
      expect(await sent()).toEqual([]);
    });

    it("ADD-21 without an outbox a returned message makes the handled message dead, and the error says what to pass", async () => {
      const { store, options, first } = await setUp();
      const dispatcher = createDispatcher<AnyMessage>({
        ...options,
        handlers: { t: () => ({ topic: "out", data: 1 }) },
      });
      expect(await dispatcher.run(store, testBudget())).toMatchObject({ failed: 1 });
      expect(await first()).toMatchObject({
        state: states.dead,
        lastError: expect.stringContaining("createDispatcher({ outbox"),
      });
    });

    it("ADD-21 an outbox on another database is refused", async () => {
      const { store, outbox, owner, options } = await setUp();
      const elsewhere = createOutbox(openSqlite({ file: ":memory:" }));
      const handlers = { t: () => {} };
      expect(() => createDispatcher<AnyMessage>({ ...options, store, outbox: elsewhere, handlers })).toThrow(
        InvalidArgumentError,
      );
      const dispatcher = createDispatcher<AnyMessage>({ ...options, handlers, outbox: elsewhere });
      await expect(dispatcher.run(store, testBudget())).rejects.toThrow(/same db/);
      const [message] = await store.claim({ owner });
      const outgoing = elsewhere.prepare({ topic: "out", payload: "" });
      await expect(store.ack(owner, [{ message: message!, outgoing }])).rejects.toThrow(InvalidArgumentError);
      expect(
        (await store.ack(owner, [{ message: message!, outgoing: outbox.prepare([]) }])).changed,
      ).toHaveLength(1);
    });

    it("ADD-21 what a handler returned is not lost in a middleware that returns nothing", async () => {
      const { store, outbox, options, sent } = await setUp();
      const seen: unknown[] = [];
      const dispatcher = createDispatcher<AnyMessage>({
        ...options,
        outbox,
        use: [
          async (_message, _context, next) => {
            seen.push(await next());
          },
          (_message, _context, next) => next(),
        ],
        handlers: { t: () => ({ topic: "out", payload: "kept" }) },
      });
      expect(await dispatcher.run(store, testBudget())).toMatchObject({ acked: 1 });
      expect(payloads(await sent())).toEqual(["kept"]);
      expect(seen).toEqual([{ topic: "out", payload: "kept" }]);
    });

    it.each([
      ["ADD-21 after a deadlock the settlement is repeated, and its messages are stored once", "before"],
      ["ADD-21 a settlement whose answer was lost is repeated, and its messages are stored once", "after"],
    ] as const)("%s", async (_title, when) => {
      const faults: Fault[] = [];
      const made = await setUp({ count: 2, wrap: (db) => failing(db, faults) });
      const { store, outbox, owner, sent, db } = made;
      const claimed = await store.claim({ owner });
      faults.push({ when, error: when === "before" ? deadlock(db) : brokenConnection(db) });
      const settlement = await store.ack(
        owner,
        claimed.map((message) => ({
          message,
          outgoing: outbox.prepare({ topic: "out", payload: message.payload }),
        })),
      );
      expect(faults).toEqual([]);
      // the first call has ended the leases, so the second finds none
      expect(settlement).toMatchObject(
        when === "before" ? { changed: claimed, lost: [] } : { changed: [], lost: claimed },
      );
      expect(payloads(await sent())).toEqual(["000", "001"]);
    });

    it.each(["message", "state"] as const)(
      "ADD-21 when the outbox cannot store the %s, the handled message is not acknowledged either",
      async (table) => {
        const { store, sent, first, outbox, outboxNames, logs, options } = await setUp();
        const rule = table === "message" ? "topic <> 'forbidden'" : "expires_at is null";
        await forbid(context.database(), outboxNames, table, "insert", rule);
        const expiresAt = table === "state" ? new Date(Date.UTC(2031, 0, 1)) : null;
        const dispatcher = createDispatcher<AnyMessage>({
          ...options,
          outbox,
          leaseMs: 300, // it is tried again for so long
          handlers: { t: () => ({ topic: "forbidden", payload: "", expiresAt }) },
        });
        expect(await dispatcher.run(store, testBudget())).toMatchObject({ handled: 1, acked: 0 });
        expect(fieldsOf(logs, "error", "settling failed")[0]).toMatchObject({ call: "ack", messages: 1 });
        expect(await first()).toMatchObject({ state: states.held, owner: expect.any(String) });
        expect(await sent()).toEqual([]);
      },
    );
  });
}

interface Fault {
  readonly error: Error;
  /** Before the call is sent, or after the database has committed it. */
  readonly when: "before" | "after";
}

/** A database whose next calls fail, single statements and whole transactions alike, while there are faults. */
function failing(db: Database, faults: Fault[]): Database {
  const withFault = async <T>(call: () => Promise<T>): Promise<T> => {
    const fault = faults.shift();
    if (fault?.when === "before") throw fault.error;
    const result = await call();
    if (fault !== undefined) throw fault.error;
    return result;
  };
  const { driver } = db;
  return {
    ...db,
    driver: {
      ...driver,
      query: (text, params, options) => withFault(() => driver.query(text, params, options)),
      transaction: (work, options) => withFault(() => driver.transaction(work, options)),
      close: () => driver.close(),
    },
  };
}
