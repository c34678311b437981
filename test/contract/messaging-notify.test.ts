import { randomUUID } from "node:crypto";
import pg from "pg";
import { afterEach, describe, expect, inject, it } from "vitest";
import { defineMessages, signal } from "../../src/messaging/messages.js";
import { createService } from "../../src/messaging/service.js";
import { inProcessTransport } from "../../src/messaging/transports/in-process-transport.js";
import { fromPg, openPostgres } from "../../src/sql/postgres/index.js";
import { channelOf, namesOf } from "../../src/sql/postgres/notify.js";
import { textMember } from "./messaging/support.js";

const url = inject("postgresUrl");
const messages = defineMessages({ OrderApproved: signal(textMember("orderId")) });

describe("PostgreSQL messaging: notify", () => {
  const ending: (() => Promise<unknown>)[] = [];
  afterEach(async () => {
    for (const end of ending.splice(0).reverse()) await end();
  });

  const connected = async (): Promise<pg.Client> => {
    const client = new pg.Client(url);
    await client.connect();
    ending.push(() => client.end());
    return client;
  };

  /** Services that poll once an hour, so that only a wake-up is in time. */
  const services = async (notify: boolean) => {
    const schema = `n_${randomUUID().slice(0, 8)}`;
    const db = openPostgres({ url });
    ending.push(() => db.close());
    const client = await connected();
    ending.push(() => client.query(`drop schema if exists "${schema}" cascade`));
    const handled: string[] = [];
    const inProcess = inProcessTransport();
    const shared = { db, messages, schema, pollMs: 3_600_000, notify };
    const inventory = createService({
      ...shared,
      serviceId: "inventory",
      table: "inventory",
      receive: { OrderApproved: ({ orderId }) => void handled.push(orderId) },
    });
    const orders = createService({
      ...shared,
      serviceId: "orders",
      destinations: { inventory: { transport: "inprocess" as const } },
      transports: { own: [inProcess] },
    });
    for (const service of [inventory, orders]) {
      await service.init();
      ending.push(() => service.close());
    }
    inProcess.serve("inventory", inventory.receiver);
    return { orders, handled, client, schema };
  };

  it("MSG-01 MSG-18 a commit of the caller's own transaction wakes the sender", async () => {
    const { orders, handled, client, schema } = await services(true);
    orders.start();
    const channel = channelOf(namesOf({ kind: "outbox", schema, table: "messages_outbox" }));
    const listeners = async () =>
      (await client.query("select 1 from pg_stat_activity where query = $1", [`listen "${channel}"`]))
        .rowCount;
    await expect.poll(listeners, { timeout: 20_000 }).toBe(1);

    const own = await connected();
    for (const orderId of ["1", "2"]) {
      await own.query("begin");
      await orders.send.OrderApproved("inventory", { orderId }, { tx: fromPg(own) });
      await own.query("commit");
      await expect.poll(() => handled.at(-1), { timeout: 20_000 }).toBe(orderId);
    }
    await orders.stop();
    await expect.poll(listeners, { timeout: 20_000 }).toBe(0);
  });

  it("MSG-18 without it no commit notifies", async () => {
    const { client, schema } = await services(false);
    const { rows } = await client.query("select tgname from pg_trigger where tgrelid = $1::regclass", [
      `"${schema}"."messages_outbox_state"`,
    ]);
    expect(rows).toEqual([]);
  });
});
