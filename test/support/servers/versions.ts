import type { ServerRecipe } from "./find-server.js";
import { kafkaServer, mongoServer, natsServer, rabbitServer, redisServer } from "./recipes.js";

/** A server that `npm run test:servers` runs suites on. */
export interface TestServer {
  readonly name: string;
  readonly recipe: ServerRecipe;
  /** What the running server says of itself. */
  readonly describe: (url: string) => Promise<string>;
}

export const testServers: readonly TestServer[] = [
  {
    name: "Redis",
    recipe: redisServer,
    async describe(url) {
      const { Redis } = await import("ioredis");
      const redis = new Redis(url);
      const told = await redis.info("server").finally(() => redis.disconnect());
      const valkey = /valkey_version:(\S+)/.exec(told)?.[1]; // it also has the version of Redis that it is compatible with
      return valkey === undefined ? `Redis ${/redis_version:(\S+)/.exec(told)?.[1]}` : `Valkey ${valkey}`;
    },
  },
  {
    name: "RabbitMQ",
    recipe: rabbitServer,
    async describe(url) {
      const { connect } = await import("amqplib");
      const connection = await connect(url);
      const { product, version } = connection.connection.serverProperties;
      await connection.close();
      return `${product} ${version}`;
    },
  },
  {
    name: "MongoDB",
    recipe: mongoServer,
    async describe(url) {
      const { MongoClient } = await import("mongodb");
      const client = new MongoClient(url);
      const { version } = await client
        .db()
        .admin()
        .buildInfo()
        .finally(() => client.close());
      return `MongoDB ${version}`;
    },
  },
  {
    name: "NATS",
    recipe: natsServer,
    async describe(url) {
      const { connect } = await import("@nats-io/transport-node");
      const connection = await connect({ servers: url });
      const { version } = connection.info!;
      await connection.close();
      return `nats-server ${version}`;
    },
  },
  {
    name: "Kafka",
    recipe: kafkaServer,
    async describe(url) {
      const { Kafka, logLevel } = await import("kafkajs");
      const admin = new Kafka({ brokers: [new URL(url).host], logLevel: logLevel.NOTHING }).admin();
      await admin.connect();
      const { brokers } = await admin.describeCluster().finally(() => admin.disconnect());
      return `${brokers.length} broker(s); the protocol does not tell the version`;
    },
  },
];
