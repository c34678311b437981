import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { type Database, migrate, type SqlExecutor, statement } from "../../src/index.js";
import {
  currentTransaction,
  inbox,
  outbox,
  publish,
  stack,
  transaction,
} from "../../src/middleware/index.js";
import { openPostgres } from "../../src/sql/postgres/index.js";
import { startWireCounter, type WireCounter } from "../support/wire-counter.js";

/** Counted on the wire between the driver and PostgreSQL. */
describe("what the stack costs on PostgreSQL", () => {
  const schema = `cost_${randomUUID().slice(0, 8)}`;
  let counter: WireCounter;
  let db: Database;
  beforeAll(async () => {
    counter = await startWireCounter(inject("postgresUrl"));
    db = openPostgres({ url: counter.url, maxConnections: 1 });
    await migrate(db, { schema });
    await raw(`create table ${schema}.orders (id text primary key)`);
    for (const id of ["warm", "up"]) await full({ messageId: id }); // the connection is open, the statements prepared
  });
  afterAll(async () => {
    await raw(`drop schema ${schema} cascade`);
    await db.close();
    await counter.close();
  });

  const raw = (text: string) => db.driver.query({ name: "raw", steps: [text], unprepared: true }, {});
  const order = statement("order", `insert into ${schema}.orders (id) values (:id)`);
  const placeOrder = (on: SqlExecutor, id: string) => on.query(order, { id });
  const full = (message: { messageId: string }) =>
    stack<{ messageId: string }>(
      [transaction(db), inbox({ subscriber: "s", schema }), outbox({ schema })],
      async ({ messageId }) => {
        await placeOrder(currentTransaction()!, messageId);
        publish({ topic: "placed", payload: "1" });
        return [2, 3].map((n) => ({ topic: "placed", payload: `${n}` }));
      },
    )(message);

  it("MID-07 adds three round trips to the handler's own, however many messages it sends; two statements to those of a transaction", async () => {
    const bare = await counter.count(() => placeOrder(db.driver, "bare"));
    const own = await counter.count(() => db.driver.transaction((tx) => placeOrder(tx, "own")));
    const whole = await counter.count(() => full({ messageId: "m" }));

    expect(bare).toEqual({ statements: 1, roundTrips: 1 });
    expect(own).toEqual({ statements: 3, roundTrips: 2 }); // begin with the insert; commit
    expect(whole).toEqual({ statements: 5, roundTrips: 4 }); // begin with the inbox; the insert; the outbox; commit
  });

  it("MID-03 a duplicate costs two round trips", async () => {
    await full({ messageId: "d" });
    expect(await counter.count(() => full({ messageId: "d" }))).toEqual({ statements: 3, roundTrips: 2 });
  });
});
