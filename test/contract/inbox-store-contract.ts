import { describe } from "vitest";
import type { ContractHarness } from "./harness.js";
import { concurrencyTests } from "./inbox-store/concurrency.js";
import {
  createStoreContext,
  type InboxStoreHarness,
  type TestInboxStore,
  type TestLeasingStore,
} from "./inbox-store/harness.js";
import { hostileTextTests } from "./inbox-store/hostile-texts.js";
import { inspectionTests } from "./inbox-store/inspection.js";
import { leaseTests } from "./inbox-store/leases.js";
import { processedTests } from "./inbox-store/processed.js";
import { sqlKeyTests } from "./inbox-store/sql-keys.js";
import { sqlPurgeTests } from "./inbox-store/sql-purge.js";
import { createSqlStoreContext, sqlStoreHarness } from "./inbox-store/sql-support.js";

/**
 * What every inbox store must do: remember processed keys.
 *
 * @example
 * inboxStoreContract({ name: "my store", open: () => openTestStore() });
 */
export function inboxStoreContract(harness: InboxStoreHarness<TestInboxStore>): void {
  describe(`inbox store on ${harness.name}`, () => {
    processedTests(createStoreContext(harness));
  });
}

/** What an inbox store must do that also leases keys. The tests of `inboxStoreContract` are among these. */
export function leasingInboxStoreContract(harness: InboxStoreHarness<TestLeasingStore>): void {
  describe(`leasing inbox store on ${harness.name}`, () => {
    const context = createStoreContext(harness);
    processedTests(context);
    leaseTests(context);
    inspectionTests(context);
    concurrencyTests(context);
    hostileTextTests(context);
  });
}

/** The same for a store on a SQL database, and that its keys and the messages of an inbox are independent. */
export function sqlInboxStoreContract(harness: ContractHarness): void {
  leasingInboxStoreContract(sqlStoreHarness(harness));
  describe(`inbox store on the tables of ${harness.name}`, () => {
    const context = createSqlStoreContext(harness);
    sqlKeyTests(context);
    sqlPurgeTests(context);
  });
}
