import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { createInbox, type Database, migrate, type SqlQueryable, statement } from "../../src/index.js";
import {
  compose,
  currentTransaction,
  inbox,
  outbox,
  publish,
  transaction,
} from "../../src/middleware/index.js";
import { openPostgres, postgresDialect } from "../../src/sql/postgres/index.js";
import { startWireCounter, type WireCounter } from "../support/wire-counter.js";

/** Counted on the wire between the driver and PostgreSQL. */
describe("what the middleware costs on PostgreSQL", () => {
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

  const raw = (text: string) => db.driver.query({ name: "raw", text, unprepared: true }, {});
  const order = statement("order", `insert into ${schema}.orders (id) values (:id)`);
  const placeOrder = (on: SqlQueryable, id: string) => on.query(order, { id });
  const found = statement("found", `select count(*)::int as n from ${schema}.orders where id = :id`);
  const stackOn = (on: Database, send = outbox({ schema })) =>
    compose<{ messageId: string }>(
      [transaction(on), inbox({ subscriber: "s", schema }), send],
      async ({ messageId }) => {
        await placeOrder(currentTransaction()!, messageId);
        publish({ topic: "placed", payload: "1" });
        return [2, 3].map((n) => ({ topic: "placed", payload: `${n}` }));
      },
    );
  const full = (message: { messageId: string }) => stackOn(db)(message);

  it("MID-07 adds two round trips to the handler's own, however many messages it sends; two statements to those of a transaction", async () => {
    const bare = await counter.count(() => placeOrder(db.driver, "bare"));
    const own = await counter.count(() => db.driver.transaction((tx) => placeOrder(tx, "own")));
    const whole = await counter.count(() => full({ messageId: "m" }));

    expect(bare).toEqual({ statements: 1, roundTrips: 1 });
    expect(own).toEqual({ statements: 3, roundTrips: 2 }); // begin with the insert; commit
    expect(whole).toEqual({ statements: 5, roundTrips: 3 }); // begin with the inbox; the insert; outbox with commit
  });

  it("MID-03 a duplicate costs two round trips", async () => {
    await full({ messageId: "d" });
    expect(await counter.count(() => full({ messageId: "d" }))).toEqual({ statements: 3, roundTrips: 2 });
  });

  it("MID-08 where pg does not pipeline, the commit waits for the outbox, and each statement has a round trip of its own", async () => {
    const plain = openPostgres({ url: counter.url, config: { pipeline: false }, maxConnections: 1 });
    const handle = stackOn(plain);
    try {
      await handle({ messageId: "plain 1" });
      expect(await counter.count(() => handle({ messageId: "plain 2" }))).toEqual({
        statements: 5,
        roundTrips: 5,
      });
    } finally {
      await plain.close();
    }
  });

  it("MID-08 a commit that was sent together with a failing outbox insert is a rollback, reported with the insert's error", async () => {
    await migrate(db, { schema, outbox: "Refusing" });
    const { message: table } = postgresDialect.names("outbox", schema, "Refusing");
    await raw(`create function ${schema}.refuse() returns trigger language plpgsql as
      $$ begin raise exception 'no more messages' using errcode = 'P0815'; end $$`);
    const handle = stackOn(db, outbox({ schema, table: "Refusing" }));
    const left = async (id: string) => ({
      orders: (await db.driver.query(found, { id }))[0]!.n,
      inbox: await createInbox(db, { schema }).get({ source: "s", messageId: id }),
    });
    for (const [id, timing] of [
      ["at once", ""],
      ["at the commit", "deferrable initially deferred"],
    ] as const) {
      const kind = timing === "" ? "trigger" : "constraint trigger";
      await raw(
        `create ${kind} refuse after insert on ${table} ${timing} for each row execute function ${schema}.refuse()`,
      );
      await expect(handle({ messageId: id })).rejects.toMatchObject({ code: "P0815" });
      expect(await left(id)).toEqual({ orders: 0, inbox: null });
      await raw(`drop trigger refuse on ${table}`);
      await handle({ messageId: id }); // the connection is as good as before
      expect(await left(id)).toMatchObject({ orders: 1, inbox: { state: "Done" } });
    }
  });
});
