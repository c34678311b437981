import { ServiceBusClient, type ServiceBusReceiver } from "@azure/service-bus";
import { describe } from "vitest";
import type { LeasingInboxStore } from "../../../src/inbox-store/inbox-store.js";
import { startServiceBusBroker } from "../queues/service-bus-broker.js";
import { consumerSuite, exampleOf, type Handle } from "./consumer-suite.js";

type Consume = (
  receiver: ServiceBusReceiver,
  store: LeasingInboxStore,
  handle: Handle,
) => { close(): Promise<void> };

describe("examples/consumers: Service Bus, Microsoft's SDK against an AMQP 1.0 peer", () => {
  consumerSuite(async () => {
    const broker = await startServiceBusBroker();
    const client = new ServiceBusClient(broker.connectionString);
    const sender = client.createSender("orders");
    const receiver = client.createReceiver("orders");
    let subscription: { close(): Promise<void> } | undefined;
    return {
      async send({ messageId, body, idempotencyKey }) {
        const applicationProperties =
          idempotencyKey === undefined ? {} : { "Idempotency-Key": idempotencyKey };
        await sender.sendMessages({ messageId, body, applicationProperties });
      },
      async consume(store, handle) {
        subscription = (await exampleOf<Consume>("service-bus"))(receiver, store, handle);
      },
      async close() {
        await subscription?.close();
        await client.close();
        await broker.stop();
      },
    };
  });
});
