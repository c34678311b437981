import { afterAll, beforeAll, describe } from "vitest";
import { defined } from "../base/defined.js";
import { migrate } from "../sql/migrate.js";
import type { ContractHarness, TestDatabase } from "./harness.js";
import { catalogueTests } from "./tenants/catalogue.js";
import { pollTests } from "./tenants/poll.js";

/**
 * What a dispatcher of many tenants needs of a database: a poll in one round trip, and a catalogue of tenants.
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
      await migrate(db, defined({ schema })); // makes the schema
    });
    afterAll(() => opened?.close());
    pollTests(() => opened!);
    catalogueTests(() => opened!);
  });
}
