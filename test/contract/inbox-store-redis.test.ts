import { describe } from "vitest";
import { createRedisInboxStore } from "../../src/service/redis-inbox-store.js";
import { findServer, needs } from "../support/servers/find-server.js";
import { redisServer } from "../support/servers/recipes.js";
import { clockedStore, unclockedStore } from "../support/servers/test-stores.js";
import { leasingInboxStoreContract } from "./inbox-store-contract.js";

const start = await findServer(redisServer);

describe.skipIf(start === undefined)(`Redis (${needs(redisServer)})`, () => {
  const prefix = `contract:${Date.now()}:`;

  leasingInboxStoreContract({
    name: "Redis",
    async open() {
      const { url, stop } = await start!();
      return clockedStore((clock) => createRedisInboxStore({ url, prefix, clock }), stop);
    },
  });

  leasingInboxStoreContract({
    name: "Redis, by the server's own time",
    async open() {
      const { url, stop } = await start!();
      return unclockedStore(() => createRedisInboxStore({ url, prefix: `${prefix}own:` }), stop);
    },
  });
});
