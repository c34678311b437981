import { describe } from "vitest";
import { createRedisInboxStore } from "../../src/service/redis-inbox-store.js";
import { leasingInboxStoreContract } from "../../src/testing/inbox-store-contract.js";
import { clockedStore } from "../support/servers/clocked-store.js";
import { findServer, needs } from "../support/servers/find-server.js";
import { redisServer } from "../support/servers/recipes.js";

const start = await findServer(redisServer);

describe.skipIf(start === undefined)(`Redis (${needs(redisServer)})`, () => {
  leasingInboxStoreContract({
    name: "Redis",
    async open() {
      const { url, stop } = await start!();
      const prefix = `contract:${Date.now()}:`;
      return clockedStore((clock) => createRedisInboxStore({ url, prefix, clock }), stop);
    },
  });
});
