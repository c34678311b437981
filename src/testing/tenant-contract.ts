import { afterAll, beforeAll, describe } from "vitest";
import { migrate } from "../sql/migrate.js";
import type { ContractHarness, TestDatabase } from "./harness.js";
import { catalogueTests } from "./tenants/catalogue.js";
import { dueTests } from "./tenants/due.js";

/**
 * What many tenants need of any database: to say in one round trip whether there is work, and to list tenants.
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
      await migrate(db, schema === undefined ? {} : { schema }); // makes the schema
    });
    afterAll(() => opened?.close());
    dueTests(() => opened!);
    catalogueTests(() => opened!);
  });
}
