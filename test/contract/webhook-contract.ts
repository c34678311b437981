import { describe } from "vitest";
import type { ContractHarness } from "./harness.js";
import { createInboxContext } from "./inbox/support.js";
import { batchTests } from "./webhooks/batches.js";
import { concurrencyTests } from "./webhooks/concurrency.js";
import { durabilityTests } from "./webhooks/durability.js";
import { orderTests } from "./webhooks/order.js";
import { storageTests } from "./webhooks/storage.js";

/**
 * What the webhook route must do on any database (FUN-01).
 *
 * @example
 * webhookContract({ name: "MyDatabase", open: () => openTestDatabase() });
 */
export function webhookContract(harness: ContractHarness): void {
  describe(`webhooks on ${harness.name}`, () => {
    const context = createInboxContext(harness);
    batchTests(context);
    concurrencyTests(context);
    durabilityTests(context);
    orderTests(context);
    storageTests(context);
  });
}
