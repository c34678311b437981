import { type Consumer, type ConsumerMessages, jetstream, jetstreamManager } from "@nats-io/jetstream";
import { connect, headers as newHeaders } from "@nats-io/transport-node";
import { describe } from "vitest";
import type { LeasingInboxStore } from "../../../src/inbox-store/inbox-store.js";
import { findServer, needs } from "../../support/servers/find-server.js";
import { natsServer } from "../../support/servers/recipes.js";
import { untilOpen } from "../../support/servers/until-open.js";
import { consumerSuite, exampleOf, type Handle } from "./consumer-suite.js";

const start = await findServer(natsServer);
type Consume = (consumer: Consumer, store: LeasingInboxStore, handle: Handle) => Promise<ConsumerMessages>;

describe.skipIf(start === undefined)(`examples/consumers: NATS (${needs(natsServer)})`, () => {
  consumerSuite(async () => {
    const server = await start!();
    const connection = await untilOpen(() => connect({ servers: server.url }));
    const manager = await jetstreamManager(connection);
    // Without the server's own window for duplicates, so that they reach the consumer.
    await manager.streams.add({ name: "orders", subjects: ["orders"], duplicate_window: 100_000_000 });
    await manager.consumers.add("orders", { durable_name: "billing", ack_policy: "explicit" });
    const client = jetstream(connection);
    let messages: ConsumerMessages | undefined;
    return {
      async send({ messageId, body, idempotencyKey }) {
        const headers = newHeaders();
        if (idempotencyKey !== undefined) headers.set("Idempotency-Key", idempotencyKey);
        await client.publish("orders", body, { headers, msgID: messageId });
      },
      async consume(store, handle) {
        const consumer = await client.consumers.get("orders", "billing");
        messages = await (await exampleOf<Consume>("nats"))(consumer, store, handle);
      },
      async close() {
        await messages?.close();
        await connection.close();
        await server.stop();
      },
    };
  });
});
