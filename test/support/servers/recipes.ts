import { freePort } from "../start-postgres.js";
import type { ServerRecipe } from "./find-server.js";

export const redisServer: ServerRecipe = {
  variable: "ONCEBOX_TEST_REDIS_URL",
  programs: ["redis-server", "valkey-server"],
  run: (port, folder) => ({
    args: [
      "--bind",
      "127.0.0.1",
      "--port",
      String(port),
      "--dir",
      folder,
      "--save",
      "",
      "--appendonly",
      "yes",
    ],
  }),
  image: { name: "valkey/valkey:8", port: 6379 },
  url: (address) => `redis://${address}`,
};

export const mongoServer: ServerRecipe = {
  variable: "ONCEBOX_TEST_MONGO_URL",
  programs: ["mongod"],
  run: (port, folder) => ({ args: ["--bind_ip", "127.0.0.1", "--port", String(port), "--dbpath", folder] }),
  image: { name: "mongo:8", port: 27_017 },
  url: (address) => `mongodb://${address}/oncebox`,
};

export const natsServer: ServerRecipe = {
  variable: "ONCEBOX_TEST_NATS_URL",
  programs: ["nats-server"],
  run: (port, folder) => ({ args: ["-a", "127.0.0.1", "-p", String(port), "-js", "-sd", folder] }),
  image: { name: "nats:2", port: 4222, command: ["-js"] },
  url: (address) => `nats://${address}`,
};

export const rabbitServer: ServerRecipe = {
  variable: "ONCEBOX_TEST_RABBITMQ_URL",
  programs: ["rabbitmq-server"],
  async run(port, folder) {
    const [distribution, names] = [await freePort(), await freePort()];
    return {
      args: [],
      afterwards: ["epmd", "-kill"], // Erlang's name server, which outlives the broker
      env: {
        HOME: folder,
        RABBITMQ_NODENAME: `oncebox${port}@localhost`,
        RABBITMQ_NODE_IP_ADDRESS: "127.0.0.1",
        RABBITMQ_NODE_PORT: String(port),
        RABBITMQ_DIST_PORT: String(distribution),
        ERL_EPMD_PORT: String(names),
        ERL_EPMD_ADDRESS: "127.0.0.1",
        RABBITMQ_MNESIA_BASE: folder,
        RABBITMQ_LOG_BASE: folder,
        RABBITMQ_ENABLED_PLUGINS_FILE: `${folder}/plugins`,
        RABBITMQ_CONFIG_FILE: `${folder}/none`,
      },
    };
  },
  image: { name: "rabbitmq:4", port: 5672 },
  url: (address) => `amqp://guest:guest@${address}`,
};

/** Only by its address: a broker tells its clients where it is, so a container's port has to be known before it starts. */
export const kafkaServer: ServerRecipe = {
  variable: "ONCEBOX_TEST_KAFKA_URL",
  programs: [],
  run: () => ({ args: [] }),
  url: (address) => `kafka://${address}`,
};
