import { type } from "arktype";
import * as v from "valibot";
import { afterEach, beforeEach, describe, expect, expectTypeOf, it } from "vitest";
import * as z from "zod";
import {
  createDispatcher,
  createInbox,
  createOutbox,
  type Database,
  defineTopics,
  migrate,
  timeBudget,
} from "../../src/index.js";
import type { SqlExecutor } from "../../src/sql/driver.js";
import { openSqlite } from "../../src/sql/sqlite/index.js";

const topics = defineTopics({
  "zod.order": z.object({ id: z.number(), at: z.string().transform((text) => new Date(text)) }),
  "valibot.order": v.object({ id: v.number() }),
  "arktype.order": type({ id: "number" }),
});

let db: Database;
beforeEach(async () => {
  db = openSqlite({ file: ":memory:" });
  await migrate(db);
});
afterEach(() => db.close());

describe("defineTopics", () => {
  it("ADD-13 checks and types data on enqueue and in handlers, with zod, valibot and arktype", async () => {
    const outbox = createOutbox(db, { logger: false });
    const at = "2026-01-02T03:04:05.000Z";
    await topics.enqueue(outbox, { topic: "zod.order", data: { id: 1, at }, correlationId: "c" });
    await topics.enqueue(outbox, { topic: "valibot.order", data: { id: 2 } });
    await topics.enqueue(outbox, { topic: "arktype.order", data: { id: 3 } });
    const seen: unknown[] = [];
    const publishers = topics.publishers({
      "zod.order": ({ data, id }) => {
        expectTypeOf(data).toEqualTypeOf<{ id: number; at: Date }>();
        expectTypeOf(id).toBeString();
        seen.push(data);
      },
      "valibot.order": {
        transactional: true,
        handle({ data }, { tx }) {
          expectTypeOf(data).toEqualTypeOf<{ id: number }>();
          expectTypeOf(tx).toEqualTypeOf<SqlExecutor>();
          seen.push(data);
        },
      },
      "arktype.order": { retry: { maxAttempts: 2 }, handle: ({ data }) => void seen.push(data) },
    });
    const result = await createDispatcher({ handlers: publishers, logger: false }).run(
      outbox,
      timeBudget(60_000),
    );
    expect(result).toMatchObject({ acked: 3 });
    const inOrder = (seen as { id: number }[]).sort((a, b) => a.id - b.id);
    expect(inOrder).toEqual([{ id: 1, at: new Date(at) }, { id: 2 }, { id: 3 }]);
  });

  it("ADD-13 data that does not fit is refused before anything is stored, with the path and without the value", async () => {
    const outbox = createOutbox(db, { logger: false });
    for (const topic of ["zod.order", "valibot.order", "arktype.order"] as const) {
      const wrong = { topic, data: { id: "secret-words" } } as never;
      const error = await topics.enqueue(outbox, wrong).catch((thrown: Error) => thrown);
      expect(String(error)).toMatch(
        new RegExp(`InvalidArgumentError: The data of "${topic}" does not fit.*id`),
      );
      expect(String(error)).not.toContain("secret-words");
    }
    expect((await outbox.list()).messages).toEqual([]);
  });

  it("ADD-13 a received message that does not fit is dead, and its handler is not called", async () => {
    const inbox = createInbox(db, { logger: false });
    await inbox.receive({ source: "s", messageId: "1", topic: "valibot.order", payload: '{"id":"x"}' });
    await inbox.receive({ source: "s", messageId: "2", topic: "valibot.order", payload: '{"id":2}' });
    const seen: number[] = [];
    const handlers = topics.handlers({
      "valibot.order": ({ data, source }) => void seen.push(source === "s" ? data.id : 0),
    });
    const result = await createDispatcher({ handlers, logger: false }).run(inbox, timeBudget(60_000));
    expect(result).toMatchObject({ acked: 1, failed: 1 });
    expect(seen).toEqual([2]);
  });

  it("ADD-13 refuses a topic without a schema, by type and at run time", async () => {
    const outbox = createOutbox(db, { logger: false });
    // @ts-expect-error the topic is misspelt
    const call = topics.enqueue(outbox, { topic: "zod.ordr", data: {} });
    await expect(call).rejects.toThrow('"zod.ordr" is none of: zod.order, valibot.order, arktype.order');
    // @ts-expect-error the topic is misspelt
    expect(() => topics.handlers({ "zod.ordr": () => {} })).toThrow(/none of/);
    // @ts-expect-error the data lacks a field
    await expect(topics.enqueue(outbox, { topic: "zod.order", data: { id: 1 } })).rejects.toThrow(/at/);
    expect(() => defineTopics({ t: {} as never })).toThrow(/not a Standard Schema/);
  });
});
