import { afterAll, beforeAll, describe } from "vitest";
import { omitUndefined } from "../../src/base/defined.js";
import { migrate } from "../../src/sql/migrate.js";
import type { ContractHarness, TestDatabase } from "./harness.js";
import { catalogueTests } from "./tenants/catalogue.js";
import { pollTests } from "./tenants/poll.js";
import { tenantStoreTests } from "./tenants/stores.js";
import { strategyTests } from "./tenants/strategies.js";

/**
 * What a dispatcher of many tenants needs of a database: a poll in one round trip, a catalogue of tenants, stores for each
 * (IBX-085 … IBX-097, OBX-066 … OBX-079), and turns in the order of a strategy.
 *
 * @example
 * tenantContract({ name: "MyDatabase", open: () => openTestDatabase() });
 */
export function tenantContract(harness: ContractHarness): void {
  describe(`tenants on ${harness.name}`, () => {
    let opened: TestDatabase | undefined;
    beforeAll(async () => {
      opened = await harness.open();
      const { db, schema } = opened;
      await migrate(db, omitUndefined({ schema })); // makes the schema
    });
    afterAll(() => opened?.close());
    pollTests(() => opened!);
    catalogueTests(() => opened!);
    tenantStoreTests(() => opened!);
    strategyTests(() => opened!);
  });
}
