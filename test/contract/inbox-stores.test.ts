import { describe } from "vitest";
import { createHttpInboxStore } from "../../src/inbox-store/client/http-inbox-store.js";
import { createMongoInboxStore } from "../../src/inbox-store/mongo-inbox-store.js";
import { createRedisInboxStore } from "../../src/inbox-store/redis-inbox-store.js";
import { createSqlInboxStore } from "../../src/inbox-store/sql-inbox-store.js";
import { migrate } from "../../src/sql/migrate.js";
import { openSqlite } from "../../src/sql/sqlite/index.js";
import { startService, token } from "../support/inbox-service/start-service.js";
import { findServer, needs } from "../support/servers/find-server.js";
import { mongoServer, redisServer } from "../support/servers/recipes.js";
import { clockedStore, unclockedStore } from "../support/servers/test-stores.js";
import { testClock } from "./harness.js";
import { leasingInboxStoreContract } from "./inbox-store-contract.js";

const startRedis = await findServer(redisServer);
const startMongo = await findServer(mongoServer);

leasingInboxStoreContract({
  name: "the HTTP service, by its client",
  async open() {
    const db = openSqlite({ file: ":memory:" });
    await migrate(db);
    const clock = testClock();
    const service = await startService({ store: createSqlInboxStore(db, { clock }), minLeaseSeconds: 1 });
    const another = createHttpInboxStore({ url: service.url, token });
    return {
      store: createHttpInboxStore({ url: service.url, token }),
      reopen: async () => another,
      clock,
      shortLeaseMs: 30_000,
      expireShortLeases: async () => clock.advance(30_000),
      async close() {
        await service.close();
        await db.close();
      },
    };
  },
});

describe.skipIf(startRedis === undefined)(`Redis (${needs(redisServer)})`, () => {
  const prefix = `contract:${Date.now()}:`;

  leasingInboxStoreContract({
    name: "Redis",
    async open() {
      const { url, stop } = await startRedis!();
      return clockedStore((clock) => createRedisInboxStore({ url, prefix, clock }), stop);
    },
  });

  leasingInboxStoreContract({
    name: "Redis, by the server's own time",
    async open() {
      const { url, stop } = await startRedis!();
      return unclockedStore(() => createRedisInboxStore({ url, prefix: `${prefix}own:` }), stop);
    },
  });
});

describe.skipIf(startMongo === undefined)(`MongoDB (${needs(mongoServer)})`, () => {
  const collection = `contract_${Date.now()}`;

  leasingInboxStoreContract({
    name: "MongoDB",
    async open() {
      const { url, stop } = await startMongo!();
      return clockedStore((clock) => createMongoInboxStore({ url, collection, clock }), stop);
    },
  });

  leasingInboxStoreContract({
    name: "MongoDB, by the server's own time",
    async open() {
      const { url, stop } = await startMongo!();
      return unclockedStore(() => createMongoInboxStore({ url, collection: `${collection}_own` }), stop);
    },
  });
});
