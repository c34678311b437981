import { describeAdmin } from "../support/admin/admin-suite.js";
import { describeInboxService } from "../support/inbox-service/service-suite.js";
import { telemetrySuite } from "../support/telemetry-suite.js";
import { dispatchContract } from "./dispatch-contract.js";
import type { ContractHarness } from "./harness.js";
import { inboxContract } from "./inbox-contract.js";
import { sqlInboxStoreContract } from "./inbox-store-contract.js";
import { messagingContract } from "./messaging-contract.js";
import { middlewareContract } from "./middleware-contract.js";
import { migrationContract } from "./migration-contract.js";
import { outboxContract } from "./outbox-contract.js";
import { partitionContract } from "./partition-contract.js";
import { tenantContract } from "./tenant-contract.js";
import { webhookContract } from "./webhook-contract.js";

/** Inbox and outbox, with what stores into them and dispatches from them. */
export function queueContracts(harness: ContractHarness): void {
  inboxContract(harness);
  outboxContract(harness);
  migrationContract(harness);
  dispatchContract(harness);
  partitionContract(harness);
  tenantContract(harness);
  webhookContract(harness);
}

/** What is built on inbox and outbox. */
export function serviceContracts(harness: ContractHarness): void {
  sqlInboxStoreContract(harness);
  messagingContract(harness);
  middlewareContract(harness);
  describeInboxService(harness);
  describeAdmin(harness);
  telemetrySuite(harness);
}
