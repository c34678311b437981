import { describe } from "vitest";
import { createMongoInboxStore } from "../../src/service/mongo-inbox-store.js";
import { leasingInboxStoreContract } from "../../src/testing/inbox-store-contract.js";
import { clockedStore } from "../support/servers/clocked-store.js";
import { findServer, needs } from "../support/servers/find-server.js";
import { mongoServer } from "../support/servers/recipes.js";

const start = await findServer(mongoServer);

describe.skipIf(start === undefined)(`MongoDB (${needs(mongoServer)})`, () => {
  leasingInboxStoreContract({
    name: "MongoDB",
    async open() {
      const { url, stop } = await start!();
      const collection = `contract_${Date.now()}`;
      return clockedStore((clock) => createMongoInboxStore({ url, collection, clock }), stop);
    },
  });
});
