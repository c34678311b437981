import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { createInbox, type Database, migrate, statement } from "../../src/index.js";
import {
  compose,
  currentTransaction,
  inbox,
  outbox,
  publish,
  transaction,
} from "../../src/middleware/index.js";
import type { SqlQueryable } from "../../src/sql/driver.js";
import { postgresDialect } from "../../src/sql/postgres/dialect.js";
import { openPostgres } from "../../src/sql/postgres/index.js";
import { createWebhookRoute, signWebhook, type WebhookScheme } from "../../src/webhooks/index.js";
import { startWireCounter, type WireCounter } from "../support/postgres-proxies.js";

/** Counted on the wire between the driver and PostgreSQL. */
describe("what calls cost on PostgreSQL", () => {
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

  it("MID-07 the middleware adds two round trips and two statements, however many messages the handler sends", async () => {
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

  it("MID-08 without pipelining the commit waits for the outbox, and each statement is one round trip", async () => {
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

  it("MID-08 a commit sent together with a failing outbox insert is a rollback, and rejects with the insert's error", async () => {
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

  it("FUN-01 a webhook with a thousand events, a tenth of them known, is one statement and one round trip", async () => {
    const scheme: WebhookScheme = {
      verify: { kind: "signature", header: "x-signature" },
      split: "{json:}",
      messageId: "{item:id}",
    };
    const secrets = "secret-of-16-bytes";
    const inbox = createInbox(db, { schema });
    const route = createWebhookRoute({ inbox, sources: { acme: { scheme, secrets } } });
    const deliver = async (from: number, to: number) => {
      const events = Array.from({ length: to - from }, (_, index) => ({ id: `e${from + index}` }));
      const signed = signWebhook(scheme, {
        url: "https://example.com/webhooks/acme",
        body: JSON.stringify(events),
        secrets,
      });
      const { messages } = (await (await route(new Request(signed.url, signed as RequestInit))).json()) as {
        messages: { outcome: string }[];
      };
      return messages.filter(({ outcome }) => outcome === "enqueued").length;
    };
    expect(await deliver(0, 100)).toBe(100); // the statement is prepared
    let enqueued = 0;
    const cost = await counter.count(async () => {
      enqueued = await deliver(0, 1_000);
    });
    expect(cost).toEqual({ statements: 1, roundTrips: 1 });
    expect(enqueued).toBe(900);
  });
});
