import { type Consumer, Kafka, logLevel } from "kafkajs";
import { describe } from "vitest";
import type { LeasingInboxStore } from "../../../src/inbox-store/inbox-store.js";
import { findServer, needs } from "../../support/servers/find-server.js";
import { kafkaServer } from "../../support/servers/recipes.js";
import { untilOpen } from "../../support/servers/until-open.js";
import { consumerSuite, exampleOf, type Handle } from "./consumer-suite.js";

const start = await findServer(kafkaServer);
type Consume = (consumer: Consumer, store: LeasingInboxStore, handle: Handle) => Promise<void>;

describe.skipIf(start === undefined)(`examples/consumers: Kafka (${needs(kafkaServer)})`, () => {
  consumerSuite(async () => {
    const server = await start!();
    const kafka = new Kafka({ brokers: [new URL(server.url).host], logLevel: logLevel.NOTHING });
    const admin = kafka.admin();
    await untilOpen(() => admin.connect());
    const topic = "orders";
    await admin.createTopics({ topics: [{ topic, numPartitions: 1 }], waitForLeaders: true });
    // A new group begins at the end, wherever that is when it has joined: this one begins where the topic ends now.
    const groupId = `billing-${Date.now()}`;
    const [last] = await admin.fetchTopicOffsets(topic);
    await admin.setOffsets({ groupId, topic, partitions: [{ partition: 0, offset: last!.high }] });
    const consumer = kafka.consumer({ groupId, retry: { initialRetryTime: 100, maxRetryTime: 1_000 } });
    await consumer.connect();
    const producer = kafka.producer();
    await producer.connect();
    return {
      async send({ messageId, body, idempotencyKey }) {
        // Kafka gives every sending an offset of its own, so the sender's id has to be a header.
        const headers = { IdempotencyKey: idempotencyKey ?? messageId };
        await producer.send({ topic, messages: [{ value: body, headers }] });
      },
      consume: async (store, handle) => (await exampleOf<Consume>("kafka"))(consumer, store, handle),
      async close() {
        await consumer.disconnect();
        await producer.disconnect();
        await admin.disconnect();
        await server.stop();
      },
    };
  });
});
