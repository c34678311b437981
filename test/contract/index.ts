export { dispatchContract } from "./dispatch-contract.js";
export * from "./harness.js";
export { inboxContract } from "./inbox-contract.js";
export * from "./inbox-store/harness.js";
export {
  inboxStoreContract,
  leasingInboxStoreContract,
  sqlInboxStoreContract,
} from "./inbox-store-contract.js";
export { messagingContract } from "./messaging-contract.js";
export { middlewareContract } from "./middleware-contract.js";
export { migrationContract } from "./migration-contract.js";
export { outboxContract } from "./outbox-contract.js";
export { partitionContract } from "./partition-contract.js";
export { tenantContract } from "./tenant-contract.js";
export { transportContract } from "./transport-contract.js";
export * from "./transports/harness.js";
export { receiverRoute } from "./transports/receiver-route.js";
export { webhookContract } from "./webhook-contract.js";
