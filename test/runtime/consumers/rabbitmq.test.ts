import { type Channel, connect } from "amqplib";
import { describe } from "vitest";
import type { LeasingInboxStore } from "../../../src/inbox-store/inbox-store.js";
import { findServer, needs } from "../../support/servers/find-server.js";
import { rabbitServer } from "../../support/servers/recipes.js";
import { untilOpen } from "../../support/servers/until-open.js";
import { consumerSuite, exampleOf, type Handle } from "./consumer-suite.js";

const start = await findServer(rabbitServer);
type Consume = (channel: Channel, store: LeasingInboxStore, handle: Handle) => Promise<void>;

describe.skipIf(start === undefined)(`examples/consumers: RabbitMQ (${needs(rabbitServer)})`, () => {
  consumerSuite(async () => {
    const server = await start!();
    const connection = await untilOpen(() => connect(server.url)); // it listens before it takes logins
    const channel = await connection.createChannel();
    const back = { deadLetterExchange: "", autoDelete: true };
    await channel.assertQueue("orders", { ...back, deadLetterRoutingKey: "orders.retry" });
    await channel.assertQueue("orders.retry", { ...back, deadLetterRoutingKey: "orders", messageTtl: 20 });
    return {
      async send({ messageId, body, idempotencyKey }) {
        const headers = idempotencyKey === undefined ? {} : { "Idempotency-Key": idempotencyKey };
        channel.sendToQueue("orders", Buffer.from(body), { messageId, headers });
      },
      consume: async (store, handle) => (await exampleOf<Consume>("rabbitmq"))(channel, store, handle),
      async close() {
        await connection.close();
        await server.stop();
      },
    };
  });
});
