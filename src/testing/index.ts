export { dispatchContract } from "./dispatch-contract.js";
export * from "./harness.js";
export { inboxContract } from "./inbox-contract.js";
export { middlewareContract } from "./middleware-contract.js";
export { migrationContract } from "./migration-contract.js";
export { outboxContract } from "./outbox-contract.js";
export { partitionContract } from "./partition-contract.js";
export { tenantContract } from "./tenant-contract.js";
export { webhookContract } from "./webhook-contract.js";
