import { type } from "arktype";
import * as v from "valibot";
import { afterEach, beforeEach, describe, expect, expectTypeOf, it } from "vitest";
import * as z from "zod";
import { createDispatcher, createInbox, createOutbox, migrate, timeBudget } from "../../src/index.js";
import { openSqlite } from "../../src/sql/sqlite/index.js";

const topics = {
  "zod.order": z.object({ id: z.number(), at: z.string().transform((text) => new Date(text)) }),
  "valibot.order": v.object({ id: v.number() }),
  "arktype.order": type({ id: "number" }),
};

let db: ReturnType<typeof openSqlite>;
beforeEach(async () => {
  db = openSqlite({ file: ":memory:" });
  await migrate(db);
});
afterEach(() => db.close());

describe("stores whose topics have schemas", () => {
  const typedOutbox = () => createOutbox(db, { topics, logger: false });

  it("ADD-13 data is checked and typed on enqueue and in handlers, with zod, valibot and arktype", async () => {
    const outbox = typedOutbox();
    const at = "2026-01-02T03:04:05.000Z";
    await outbox.enqueue({ topic: "zod.order", data: { id: 1, at }, correlationId: "c" });
    await outbox.enqueueOnce({ topic: "valibot.order", data: { id: 2 }, naturalKey: "2" });
    await outbox.enqueue([{ topic: "arktype.order", data: { id: 3 } }]);
    const seen: unknown[] = [];
    const dispatcher = createDispatcher({
      store: outbox,
      logger: false,
      handlers: {
        "zod.order": ({ data, id }) => {
          expectTypeOf(data).toEqualTypeOf<{ id: number; at: Date }>();
          expectTypeOf(id).toBeString();
          seen.push(data);
        },
        "valibot.order": {
          transactional: true,
          handle({ data }, { tx }) {
            expectTypeOf(data).toEqualTypeOf<{ id: number }>();
            expectTypeOf(tx.query).toBeFunction();
            seen.push(data);
          },
        },
        "arktype.*": { retry: { maxAttempts: 2 }, handle: ({ data }) => void seen.push(data) },
      },
    });
    expect(await dispatcher.run(outbox, timeBudget(60_000))).toMatchObject({ acked: 3 });
    const inOrder = (seen as { id: number }[]).sort((a, b) => a.id - b.id);
    expect(inOrder).toEqual([{ id: 1, at: new Date(at) }, { id: 2 }, { id: 3 }]);
  });

  it("ADD-13 data that does not fit is refused before anything is stored, with the path and without the value", async () => {
    const outbox = typedOutbox();
    for (const topic of ["zod.order", "valibot.order", "arktype.order"] as const)
      for (const content of [{ data: { id: "secret-words" } }, { payload: '{"id":"secret-words"}' }]) {
        const fitting = { topic: "valibot.order", data: { id: 1 } } as const;
        const call = outbox.enqueue([fitting, { topic, ...content } as never]);
        const error = await call.then(String, (thrown: Error) => thrown);
        expect(String(error)).toMatch(
          new RegExp(`InvalidArgumentError: The data of "${topic}" does not fit.*id`),
        );
        expect(String(error)).not.toContain("secret-words");
      }
    const text = outbox.enqueue({ topic: "valibot.order", payload: "not json" } as never);
    await expect(text).rejects.toThrow('The payload of "valibot.order" is not JSON');
    expect((await outbox.list()).messages).toEqual([]);
  });

  it("ADD-13 a received message that does not fit is dead, and its handler is not called", async () => {
    const inbox = createInbox(db, { topics, logger: false });
    await inbox.receive({ source: "s", messageId: "1", topic: "valibot.order", payload: '{"id":"x"}' });
    await inbox.receive({ source: "s", messageId: "2", topic: "valibot.order", payload: '{"id":2}' });
    const seen: number[] = [];
    const dispatcher = createDispatcher({
      store: inbox,
      logger: false,
      handlers: { "valibot.order": ({ data, source }) => void seen.push(source === "s" ? data.id : 0) },
    });
    expect(await dispatcher.run(inbox, timeBudget(60_000))).toMatchObject({ acked: 1, failed: 1 });
    expect(seen).toEqual([2]);
    expect(await inbox.get({ source: "s", messageId: "1" })).toMatchObject({
      lastError: expect.stringMatching(/does not fit its schema: id: /),
    });
  });

  it("ADD-13 an outbox takes no topic without a schema; other topics of an inbox are handled without one", async () => {
    const outbox = typedOutbox();
    // @ts-expect-error the topic is misspelt
    const call = outbox.enqueue({ topic: "zod.ordr", data: {} });
    await expect(call).rejects.toThrow(
      '"zod.ordr" is none of topics: zod.order, valibot.order, arktype.order',
    );
    // @ts-expect-error the topic is misspelt
    const prepareMisspelt = () => outbox.prepare({ topic: "zod.ordr", data: {} });
    expect(prepareMisspelt).toThrow('"zod.ordr" is none of topics');
    // @ts-expect-error the data has another type
    const prepareWrong = () => outbox.prepare([{ topic: "valibot.order", data: { id: "1" } }]);
    expect(prepareWrong).not.toThrow(); // schemas may be asynchronous: only the compiler checks the data here
    const inbox = createInbox(db, { topics, logger: false });
    await inbox.receive({ source: "s", messageId: "1", topic: "toString", payload: "not json" });
    const handlers = { "*": () => {} };
    expect(
      await createDispatcher({ store: inbox, handlers, logger: false }).run(inbox, timeBudget(60_000)),
    ).toMatchObject({ acked: 1 });
  });

  it("ADD-13 refuses what is no schema, and patterns", () => {
    expect(() => createOutbox(db, { topics: { t: {} as never } })).toThrow(/"t" is not a Standard Schema/);
    expect(() => createInbox(db, { topics: { "t.*": topics["zod.order"] } })).toThrow(/each topic whole/);
    expect(() => createInbox(db, { topics: [] as never })).toThrow(/an object with a schema/);
  });
});
