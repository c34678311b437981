import { adminContract } from "./admin-contract.js";
import { appContract } from "./app-contract.js";
import { dispatchContract } from "./dispatch-contract.js";
import type { ContractHarness } from "./harness.js";
import { inboxContract } from "./inbox-contract.js";
import { inboxServiceContract } from "./inbox-service-contract.js";
import { sqlInboxStoreContract } from "./inbox-store-contract.js";
import { diagnosticsContract } from "./messaging/diagnostics.js";
import { messagingManagementContract } from "./messaging/management.js";
import { receivingContract } from "./messaging/receiving.js";
import { responsesContract } from "./messaging/responses.js";
import { sendingContract } from "./messaging/sending.js";
import { deadLettersContract } from "./middleware/dead-letters.js";
import { flowContract } from "./middleware/flow.js";
import { httpContract } from "./middleware/http.js";
import { deploymentContract } from "./migration/deployment.js";
import { namesContract } from "./migration/names.js";
import { viewsContract } from "./migration/views.js";
import { outboxContract } from "./outbox-contract.js";
import { partitionContract } from "./partition-contract.js";
import { plainRoutineContract } from "./plain-routines.js";
import { telemetryContract } from "./telemetry-contract.js";
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
  plainRoutineContract(harness);
}

/** What is built on inbox and outbox. */
export function serviceContracts(harness: ContractHarness): void {
  sqlInboxStoreContract(harness);
  messagingContract(harness);
  middlewareContract(harness);
  inboxServiceContract(harness);
  adminContract(harness);
  telemetryContract(harness);
  appContract(harness);
}

/** What services must do on any database (MSG-01 … MSG-22, except the wire format and the transports). */
export function messagingContract(harness: ContractHarness): void {
  sendingContract(harness);
  receivingContract(harness);
  responsesContract(harness);
  messagingManagementContract(harness);
  diagnosticsContract(harness);
}

/** What transaction, inbox and outbox middleware must do on any database (MID-01 … MID-11). */
export function middlewareContract(harness: ContractHarness): void {
  flowContract(harness);
  httpContract(harness);
  deadLettersContract(harness);
}

/** How the schema comes to be (OBX-091 … OBX-095, IBX-114 … IBX-117, MID-01), on any database. */
function migrationContract(harness: ContractHarness): void {
  deploymentContract(harness);
  namesContract(harness);
  viewsContract(harness);
}
