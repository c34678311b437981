import { describe } from "vitest";
import { type ContractHarness, useDatabase } from "./harness.js";
import { deadInPartitionTests } from "./partitions/dead.js";
import { blockedPartitionTests, keyTests, partitionControlTests } from "./partitions/keys.js";
import { orderTests } from "./partitions/order.js";
import { transactionTests } from "./partitions/transactions.js";

/** What a partition key promises, for inbox and outbox alike. */
export function partitionContract(harness: ContractHarness): void {
  describe(`partition keys on ${harness.name}`, () => {
    const database = useDatabase(harness);
    orderTests(database);
    deadInPartitionTests(database);
    blockedPartitionTests(database);
    keyTests(database);
    transactionTests(database);
    partitionControlTests(database);
  });
}
