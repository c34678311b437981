import { describe } from "vitest";
import { ownStatementTests } from "./driver/own-statements.js";
import type { ContractHarness } from "./harness.js";
import { enqueueTests, resendTests, settleTests } from "./outbox/enqueue.js";
import { enqueueOnceTests } from "./outbox/enqueue-once.js";
import { messagesTests } from "./outbox/messages.js";
import { operationsTests } from "./outbox/operations.js";
import { createOutboxContext } from "./outbox/support.js";
import { queueTests } from "./queue/queue-tests.js";

/**
 * What an outbox must do on any database (OBX-001 … OBX-107, without handlers and tenants; MID-13).
 *
 * @example
 * outboxContract({ name: "MyDatabase", open: () => openTestDatabase() });
 */
export function outboxContract(harness: ContractHarness): void {
  describe(`outbox on ${harness.name}`, () => {
    const context = createOutboxContext(harness);
    queueTests("outbox", context.database);
    ownStatementTests(context);
    enqueueTests(context);
    enqueueOnceTests(context);
    settleTests(context);
    operationsTests(context);
    resendTests(context);
    messagesTests(context);
  });
}
