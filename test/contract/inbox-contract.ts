import { describe } from "vitest";
import type { ContractHarness } from "./harness.js";
import { concurrencyTests } from "./inbox/concurrency.js";
import { deduplicationTests } from "./inbox/deduplication.js";
import { enqueueTests } from "./inbox/enqueue.js";
import { keptContentTests } from "./inbox/kept-content.js";
import { keyTests } from "./inbox/keys.js";
import { operationsTests } from "./inbox/operations.js";
import { claimTests, cleanUpTests, observabilityTests, retryTests } from "./inbox/processing.js";
import { createInboxContext } from "./inbox/support.js";
import { messageTraceTests } from "./queue/operator-reads.js";
import { queueTests } from "./queue/queue-tests.js";

/**
 * What an inbox must do on any database (IBX-001 … IBX-130, without handlers and tenants).
 *
 * @example
 * inboxContract({ name: "MyDatabase", open: () => openTestDatabase() });
 */
export function inboxContract(harness: ContractHarness): void {
  describe(`inbox on ${harness.name}`, () => {
    const context = createInboxContext(harness);
    queueTests("inbox", context.database);
    deduplicationTests(context);
    keyTests(context);
    enqueueTests(context);
    keptContentTests(context);
    claimTests(context);
    retryTests(context);
    cleanUpTests(context);
    operationsTests(context);
    messageTraceTests(context.database);
    observabilityTests(context);
    concurrencyTests(context);
  });
}
