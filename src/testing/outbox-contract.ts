import { ownStatementsContract } from "./driver/own-statements.js";
import type { ContractHarness } from "./harness.js";
import { claimContract } from "./outbox/claim.js";
import { concurrencyContract } from "./outbox/concurrency.js";
import { enqueueContract } from "./outbox/enqueue.js";
import { leaseContract } from "./outbox/lease.js";
import { observabilityContract } from "./outbox/observability.js";
import { operationsContract } from "./outbox/operations.js";
import { retryContract } from "./outbox/retry.js";
import { securityContract } from "./outbox/security.js";
import { settleContract } from "./outbox/settle.js";
import { transactionContract } from "./outbox/transaction.js";

/**
 * What an outbox must do on any database (OBX-001 … OBX-107, without handlers and tenants).
 *
 * @example
 * outboxContract({ name: "MyDatabase", open: () => openTestDatabase() });
 */
export function outboxContract(harness: ContractHarness): void {
  enqueueContract(harness);
  transactionContract(harness);
  ownStatementsContract(harness);
  claimContract(harness);
  settleContract(harness);
  leaseContract(harness);
  retryContract(harness);
  operationsContract(harness);
  observabilityContract(harness);
  concurrencyContract(harness);
  securityContract(harness);
}
