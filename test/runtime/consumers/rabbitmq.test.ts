import { type Channel, type ChannelModel, connect } from "amqplib";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { LeasingInboxStore } from "../../../src/inbox-store/inbox-store.js";
import { createSqlInboxStore } from "../../../src/inbox-store/sql-inbox-store.js";
import { migrate } from "../../../src/sql/migrate.js";
import { openSqlite } from "../../../src/sql/sqlite/index.js";
import { findServer, needs } from "../../support/servers/find-server.js";
import { rabbitServer } from "../../support/servers/recipes.js";
import { untilOpen } from "../../support/servers/until-open.js";
import type { StartedServer } from "../../support/start-postgres.js";
import { consumerSuite, exampleOf, type Handle } from "./consumer-suite.js";

const start = await findServer(rabbitServer);
type Consume = (
  channel: Channel,
  store: LeasingInboxStore,
  handle: Handle,
  limits?: { readonly leaseMs: number; readonly timeoutMs: number },
) => Promise<void>;

describe.skipIf(start === undefined)(`examples/consumers: RabbitMQ (${needs(rabbitServer)})`, () => {
  let server: StartedServer;
  beforeAll(async () => {
    server = await start!();
  });
  afterAll(() => server?.stop());

  /** A connection of its own, with the queue and its retry queue. They go with the last consumer. */
  const openChannel = async (): Promise<{ connection: ChannelModel; channel: Channel }> => {
    const connection = await untilOpen(() => connect(server.url)); // it listens before it takes logins
    const channel = await connection.createChannel();
    const back = { deadLetterExchange: "", autoDelete: true };
    await channel.assertQueue("orders", { ...back, deadLetterRoutingKey: "orders.retry" });
    await channel.assertQueue("orders.retry", { ...back, deadLetterRoutingKey: "orders", messageTtl: 20 });
    return { connection, channel };
  };

  describe("a consumer", () => {
    consumerSuite(async () => {
      const { connection, channel } = await openChannel();
      return {
        async send({ messageId, body, idempotencyKey }) {
          const headers = idempotencyKey === undefined ? {} : { "Idempotency-Key": idempotencyKey };
          channel.sendToQueue("orders", Buffer.from(body), { messageId, headers });
        },
        consume: async (store, handle) => (await exampleOf<Consume>("rabbitmq"))(channel, store, handle),
        close: () => connection.close(),
      };
    });
  });

  it("SVC-02 SVC-09 a message whose handler hangs is handled by its next delivery, after the time limit and the lease", async () => {
    const db = openSqlite({ file: ":memory:" });
    await migrate(db);
    const store = createSqlInboxStore(db);
    const consumeOrders = await exampleOf<Consume>("rabbitmq");
    const consumers = [await openChannel(), await openChannel()];
    const begun: string[] = [];
    const handled = new Promise<string>((resolve) => {
      const handle: Handle = async ({ body }) => {
        begun.push(body);
        if (begun.length === 1) await new Promise(() => {}); // and it ignores its signal
        resolve(body);
      };
      const limits = { leaseMs: 500, timeoutMs: 500 };
      for (const { channel } of consumers) void consumeOrders(channel, store, handle, limits);
    });
    consumers[0]!.channel.sendToQueue("orders", Buffer.from("hangs once"), { messageId: "1" });
    expect(await handled).toBe("hangs once");
    await expect.poll(() => store.isProcessed("rabbitmq:billing:order.placed:1")).toBe(true);
    expect(begun).toEqual(["hangs once", "hangs once"]);
    for (const { connection } of consumers) await connection.close();
    await db.close();
  });
});
