import { afterAll, beforeAll, describe } from "vitest";
import type { ContractHarness, TestDatabase } from "./harness.js";
import { deadInPartitionTests } from "./partitions/dead.js";
import { keyTests } from "./partitions/keys.js";
import { orderTests } from "./partitions/order.js";
import { lineTransactionTests } from "./partitions/transactions.js";

/** What a partition key promises, for inbox and outbox alike. */
export function partitionContract(harness: ContractHarness): void {
  describe(`partition keys on ${harness.name}`, () => {
    let opened: TestDatabase | undefined;
    const database = (): TestDatabase => opened!;
    beforeAll(async () => {
      opened = await harness.open();
    });
    afterAll(async () => {
      await opened?.close();
    });
    orderTests(database);
    deadInPartitionTests(database);
    keyTests(database);
    lineTransactionTests(database);
  });
}
