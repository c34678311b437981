import { describe } from "vitest";
import { createMongoInboxStore } from "../../src/service/mongo-inbox-store.js";
import { findServer, needs } from "../support/servers/find-server.js";
import { mongoServer } from "../support/servers/recipes.js";
import { clockedStore, unclockedStore } from "../support/servers/test-stores.js";
import { leasingInboxStoreContract } from "./inbox-store-contract.js";

const start = await findServer(mongoServer);

describe.skipIf(start === undefined)(`MongoDB (${needs(mongoServer)})`, () => {
  const collection = `contract_${Date.now()}`;

  leasingInboxStoreContract({
    name: "MongoDB",
    async open() {
      const { url, stop } = await start!();
      return clockedStore((clock) => createMongoInboxStore({ url, collection, clock }), stop);
    },
  });

  leasingInboxStoreContract({
    name: "MongoDB, by the server's own time",
    async open() {
      const { url, stop } = await start!();
      return unclockedStore(() => createMongoInboxStore({ url, collection: `${collection}_own` }), stop);
    },
  });
});
