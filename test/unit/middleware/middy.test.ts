import middy from "@middy/core";
import type { Context } from "aws-lambda";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { inbox, orderedMiddleware, outbox, transaction } from "../../../src/adapters/aws/middleware.js";
import { createInbox, createOutbox, type Database, migrate, statement } from "../../../src/index.js";
import { currentTransaction, publish } from "../../../src/middleware/index.js";
import { openSqlite } from "../../../src/sql/sqlite/index.js";

const context = {} as Context;
const insertOrder = statement("insert order", "insert into orders (id) values (:id)");

describe("middy: transaction, inbox, outbox", () => {
  let db: Database;
  beforeEach(async () => {
    db = openSqlite({ file: ":memory:" });
    await migrate(db);
    await db.driver.query(statement("orders", "create table orders (id text primary key)"), {});
  });
  afterEach(() => db.close());

  const orders = async () =>
    (await db.driver.query(statement("orders", "select id from orders order by id"), {})).map(
      (row) => row.id,
    );
  const outgoing = async () => (await createOutbox(db).list()).messages.map((message) => message.payload);
  const sqsEvent = (messageId: string) => ({ Records: [{ messageId, body: "{}" }] });

  const build = (work: (event: unknown) => Promise<unknown>) =>
    middy(work)
      .use(transaction(db))
      .use(inbox({ subscriber: "orders" }))
      .use(outbox());

  it("MID-02 MID-03 MID-06 the documented middleware: all commits together, a duplicate is a success without a response", async () => {
    let calls = 0;
    const handler = build(async () => {
      calls++;
      await currentTransaction()!.query(insertOrder, { id: `o${calls}` });
      publish({ topic: "t", payload: "published" });
      return { topic: "t", payload: "returned" };
    });
    expect(await handler(sqsEvent("m"), context)).toBeUndefined();
    expect(await handler(sqsEvent("m"), context)).toBeUndefined();
    expect(calls).toBe(1);
    expect(await orders()).toEqual(["o1"]);
    expect(await outgoing()).toEqual(["published", "returned"]);
    expect(await createInbox(db).get({ source: "orders", messageId: "m" })).toMatchObject({ state: "Done" });
  });

  it("MID-02 an error in the handler or in a later middleware rolls back and ends the transaction", async () => {
    const failing = build(async () => {
      await currentTransaction()!.query(insertOrder, { id: "o" });
      throw new Error("the business says no");
    });
    await expect(failing(sqsEvent("m"), context)).rejects.toThrow("the business says no");
    const late = build(async () => {
      await currentTransaction()!.query(insertOrder, { id: "o" });
      return "this is no message";
    });
    await expect(late(sqsEvent("m"), context)).rejects.toThrow(/message/);
    expect(await orders()).toEqual([]);
    expect(await createInbox(db).get({ source: "orders", messageId: "m" })).toBeNull();
    expect(currentTransaction()).toBeUndefined();
  });

  it("MID-02 invocations at the same time each have a transaction of their own", async () => {
    const seen = new Set<unknown>();
    const handler = middy(async (event: { id: string }) => {
      const tx = currentTransaction()!;
      seen.add(tx);
      await Promise.resolve();
      expect(currentTransaction()).toBe(tx);
      await tx.query(insertOrder, { id: event.id });
    }).use(transaction(db));
    await Promise.all(["a", "b", "c"].map((id) => handler({ id }, context)));
    expect(seen.size).toBe(3);
    expect(await orders()).toEqual(["a", "b", "c"]);
  });

  it("MID-02 the handler finds the transaction with any middleware before and after it, and with an event that they replaced", async () => {
    const waiting = { before: async () => void (await new Promise(setImmediate)) };
    const handler = middy(async (event: { id: string }) => {
      await new Promise(setImmediate);
      await currentTransaction()!.query(insertOrder, { id: event.id });
    })
      .use(waiting)
      .use(transaction(db))
      .use(waiting)
      .before(async (request) => {
        await new Promise(setImmediate);
        request.event = { id: `${request.event.id}!` };
      });
    await Promise.all(["a", "b"].map((id) => handler({ id }, context)));
    expect(await orders()).toEqual(["a!", "b!"]);
    expect(currentTransaction()).toBeUndefined();
  });

  it("MID-02 MID-08 a middleware inside that ends early, before or after the handler, is refused, rolls back and leaves no transaction open", async () => {
    const early = { before: async () => "warm" };
    const late = { after: async () => "shortened" };
    for (const inner of [early, late]) {
      const handler = middy(async () => {
        await currentTransaction()!.query(insertOrder, { id: "o" });
      })
        .use(transaction(db))
        .use(inbox({ subscriber: "orders" }))
        .use(inner);
      await expect(handler(sqsEvent("m"), context)).rejects.toThrow(/ended the invocation early/);
    }
    expect(await orders()).toEqual([]); // with a transaction left open, SQLite would not get here
    expect(await createInbox(db).get({ source: "orders", messageId: "m" })).toBeNull();
    const outside = middy(async () => {})
      .use(early)
      .use(transaction(db));
    expect(await outside(sqsEvent("m"), context)).toBe("warm");
  });

  it("MID-02 an error that a middleware inside turns into a response still rolls back", async () => {
    const answering = { onError: async () => "sorry" };
    const handler = build(async () => {
      await currentTransaction()!.query(insertOrder, { id: "o" });
      throw new Error("the business says no");
    }).use(answering);
    expect(await handler(sqsEvent("m"), context)).toBe("sorry");
    expect(await orders()).toEqual([]);
    expect(await handler(sqsEvent("m"), context)).toBe("sorry");
  });

  it("MID-04 MID-07 a wrong order throws in orderedMiddleware, otherwise at the first invocation, and says what to add", async () => {
    const made = [inbox({ subscriber: "s" }), transaction(db)];
    expect(() => orderedMiddleware(made)).toThrow(/move transaction\(db\) to the front/);
    expect(orderedMiddleware([transaction(db), inbox({ subscriber: "s" }), outbox()])).toHaveLength(3);
    const handler = middy(async () => {}).use(made);
    await expect(handler(sqsEvent("m"), context)).rejects.toThrow(/Add \.use\(transaction\(db\)\)/);
    const swapped = middy(async () => {})
      .use(transaction(db))
      .use(outbox())
      .use(inbox({ subscriber: "s" }));
    await expect(swapped(sqsEvent("m"), context)).rejects.toThrow(/outbox comes before inbox/);
  });

  it("MID-04 an event without an id, or with several records, says what to do", async () => {
    const handler = build(async () => {});
    await expect(handler({}, context)).rejects.toThrow(/messageId/);
    const batch = { Records: [...sqsEvent("a").Records, ...sqsEvent("b").Records] };
    await expect(handler(batch, context)).rejects.toThrow(/sqsHandler/);
  });

  it("MID-07 phases are named, unknown options refused, and state is under one internal key", async () => {
    const names = [transaction(db), inbox({ subscriber: "s" }), outbox()].flatMap((entry) =>
      [entry.before, entry.after, entry.onError].flatMap((phase) =>
        phase === undefined ? [] : [phase.name],
      ),
    );
    expect(names).toEqual([
      "transactionBefore",
      "transactionAfter",
      "transactionOnError",
      "inboxBefore",
      "outboxBefore",
      "outboxAfter",
    ]);
    expect(() => transaction(db, { retries: 1 } as never)).toThrow(/unknown option retries/);
    expect(() => inbox({ subscriber: "s", tabel: "x" } as never)).toThrow(/unknown option tabel/);
    expect(() => outbox({ topics: "x" } as never)).toThrow(/unknown option topics/);
    let keys: string[] = [];
    const handler = middy(async () => {})
      .use(transaction(db))
      .before(async (request) => {
        keys = Object.keys(request.internal);
      });
    await handler({}, context);
    expect(keys).toEqual(["oncebox"]);
  });
});
