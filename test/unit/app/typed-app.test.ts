import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { z } from "zod";
import { multiTenant, tenantsFromConfiguration } from "../../../src/app/tenants.js";
import { readEnvironment } from "../../../src/config/environment.js";
import { type AppDefinition, createApp, defineApp, timeBudget } from "../../../src/index.js";
import { openSqlite } from "../../../src/sql/sqlite/index.js";

const open = async (definition: AppDefinition, env: NodeJS.ProcessEnv = {}) =>
  createApp(definition, { environment: await readEnvironment({ ONCEBOX_LOG_LEVEL: "silent", ...env }) });

describe("an app for one kind of database", () => {
  it("ADD-06 refuses a database of another kind, wherever its URL is from, and says no secret", async () => {
    const sqlite = { database: "sqlite:app.db" };
    await expect(open(defineApp.postgres(sqlite))).rejects.toThrow(
      "The app is for postgres: defineApp.postgres. Its database is sqlite (sqlite:app.db).",
    );
    await expect(open(defineApp.sqlserver({ ...sqlite, handlers: {} }))).rejects.toThrow(/for sqlserver/);
    const fromEnvironment = { ONCEBOX_DATABASE_URL: "postgres://app:secret-words@h/d" };
    const refused = await open(defineApp.sqlite(sqlite), fromEnvironment).catch((error: Error) => error);
    expect(String(refused)).toMatch(/for sqlite.*postgres \(postgres:h\/d\)/);
    expect(String(refused)).not.toContain("secret-words");
    // @ts-expect-error the function opens another kind of database
    const byFunction = defineApp.postgres({ database: () => openSqlite({ file: ":memory:" }) });
    await expect(open(byFunction)).rejects.toThrow(/for postgres/);
    await (await open(defineApp.sqlite({ database: "sqlite::memory:" }))).close();
  });

  it("ADD-13 refuses what is no schema, by its topic", () => {
    expect(() => defineApp({ topics: { t: 7 as never } })).toThrow(/"t" is not a Standard Schema/);
    expect(() => defineApp({ topics: [] as never })).toThrow(/topics is wrong/);
  });

  it("ADD-13 ADD-22 refuses a misspelt topic: one that no handler is for, or a publisher of none", () => {
    const topics = { "stripe.invoice.paid": z.object({}), "receipt.send": z.object({}) };
    const sources = { stripe: { secrets: "whsec_test_secret_of_tests" } };
    const paid = { "stripe.invoice.paid": () => {} };
    expect(() => defineApp({ topics, sources, handlers: { "stripe.invoice.payed": () => {} } })).toThrow(
      'topics has "stripe.invoice.paid", and no handler is for it: stripe.invoice.payed',
    );
    expect(() => defineApp({ topics, publishers: { "reciept.send": () => {} } })).toThrow(
      'publishers has "reciept.send", which is none of topics: stripe.invoice.paid, receipt.send',
    );
    const right = [
      { handlers: paid },
      { handlers: { "stripe.*": () => {} } },
      { handlers: {}, ignore: ["stripe.*"] },
      { handlers: () => ({}) },
      { handlers: paid, publishers: { "*": () => {} } },
    ];
    for (const fine of right)
      expect(() => defineApp({ topics, sources, ...fine } as Parameters<typeof defineApp>[0])).not.toThrow();
  });
});

describe("an app whose topics have schemas", () => {
  const definition = defineApp.sqlite({
    database: "sqlite::memory:",
    topics: {
      "order.placed": z.object({ id: z.number() }),
      "order.ship": z.object({ id: z.number(), by: z.string().default("mail") }),
    },
    handlers: {
      "order.placed": ({ data }) => ({ topic: "order.ship", data: { id: data.id } }),
      "order.wrong": () => ({ topic: "order.ship", data: { id: "secret-words" } as never }),
      "order.unknown": () => ({ topic: "order.shp", data: {} }) as never,
    },
    publishers: { "order.ship": ({ data }) => void shipped.push(`${data.id} by ${data.by}`) },
  });
  const shipped: string[] = [];

  it("ADD-13 ADD-21 data is checked before handlers and publishers, in what handlers return and in enqueue", async () => {
    const app = await open(definition);
    try {
      await app.migrate();
      const receive = (topic: string, data: unknown) =>
        app.inbox.receive({ source: "s", messageId: topic + JSON.stringify(data), topic, data });
      await receive("order.placed", { id: 7 });
      await receive("order.placed", { id: "x" });
      await receive("order.wrong", {});
      await receive("order.unknown", {});
      expect(await app.dispatch(timeBudget(60_000))).toMatchObject({
        inbox: { acked: 1, failed: 3 },
        outbox: { acked: 1 },
      });
      expect(shipped).toEqual(["7 by mail"]);
      const errors = (await app.inbox.list({ state: "Dead" })).messages.map(({ lastError }) => lastError);
      expect(errors).toEqual([
        expect.stringMatching(/The payload of "order.placed" does not fit its schema: id: /),
        expect.stringMatching(/The data of "order.ship" does not fit its schema: id: /),
        expect.stringMatching(/The topic "order.shp" is none of topics: order.placed, order.ship/),
      ]);
      expect(errors.join()).not.toContain("secret-words");
      const wrong = app.outbox.enqueue({ topic: "order.ship", data: { id: "x" } });
      await expect(wrong).rejects.toThrow(/does not fit its schema/);
    } finally {
      await app.close();
    }
  });
});

describe("an app with tenants", () => {
  let folder: string;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "oncebox-native-tenants-"));
  });
  afterEach(() => rm(folder, { recursive: true, force: true }));

  const ids = ["acme", "globex"];
  const tenants = () =>
    multiTenant({
      discover: tenantsFromConfiguration(
        ids.map((id) => ({ id, database: `sqlite:${join(folder, `${id}.db`)}` })),
      ),
    });

  it("ADD-04 ADD-06 native is the client of the tenant's own database", async () => {
    const app = await open(
      defineApp.sqlite({
        tenants: tenants(),
        handlers: {
          "order.placed": {
            transactional: true,
            handle({ messageId }, { tx }) {
              tx.native.prepare("insert into orders (id) values (?)").run(messageId);
              if (messageId === "wrong") throw new Error("the business says no");
            },
          },
        },
      }),
    );
    try {
      await app.migrate();
      for (const id of ids) {
        const { db, inbox } = await app.tenants!.stores(id);
        await db.driver.query({ name: "orders", text: "create table orders (id text primary key)" }, {});
        for (const messageId of [id, "wrong"])
          await inbox.receive({ source: "s", messageId, topic: "order.placed", data: {} });
      }
      await app.dispatch(timeBudget(60_000));
      for (const id of ids) {
        const { db } = await app.tenants!.stores(id);
        expect(await db.driver.query({ name: "all", text: "select id from orders" }, {})).toEqual([{ id }]);
      }
    } finally {
      await app.close();
    }
  });

  it("ADD-06 tenants on another kind of database are refused", async () => {
    const app = await open(defineApp.postgres({ tenants: tenants(), handlers: {} }));
    try {
      await expect(app.migrate()).rejects.toThrow();
      await expect(app.tenants!.stores("acme")).rejects.toThrow(/The app is for postgres/);
    } finally {
      await app.close();
    }
  });
});
