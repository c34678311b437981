import { describe } from "vitest";
import { leaseTests } from "./dispatch/leases.js";
import { longHandlerTests } from "./dispatch/long-handlers.js";
import { otherTopicsTests } from "./dispatch/other-topics.js";
import { returnedTests } from "./dispatch/returned.js";
import { routingTests } from "./dispatch/routing.js";
import { slowSettlementTests } from "./dispatch/slow-settlement.js";
import { createDispatchContext } from "./dispatch/support.js";
import { timeTests } from "./dispatch/time.js";
import { transactionalTests } from "./dispatch/transactional.js";
import { workerTests } from "./dispatch/worker.js";
import type { ContractHarness } from "./harness.js";

/** What dispatcher, maintenance and worker do on a database, for inbox and outbox alike. */
export function dispatchContract(harness: ContractHarness): void {
  describe(`dispatch on ${harness.name}`, () => {
    const context = createDispatchContext(harness);
    routingTests(context);
    otherTopicsTests(context);
    timeTests(context);
    leaseTests(context);
    slowSettlementTests(context);
    longHandlerTests(context);
    transactionalTests(context);
    returnedTests(context);
    workerTests(context);
  });
}
