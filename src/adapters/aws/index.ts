export type { JobFunction } from "./cold-start.js";
export type { EmfMetricsOptions } from "./emf-metrics.js";
export { emfMetrics } from "./emf-metrics.js";
export type {
  AdminFunction,
  DispatchFunctionReport,
  InboxServiceFunction,
  WebhookFunction,
} from "./functions.js";
export {
  adminFunction,
  cleanupFunction,
  consumeFunction,
  dispatchFunction,
  inboxServiceFunction,
  reapFunction,
  recoverGithubFunction,
  webhookFunction,
} from "./functions.js";
export type { MessageReceiveFunction } from "./message-functions.js";
export {
  messageDispatchFunction,
  messageMaintainFunction,
  messageReceiveFunction,
} from "./message-functions.js";
export type { MigrateReport } from "./migrate-function.js";
export { migrateFunction } from "./migrate-function.js";
export { tenantsFromSecretsManager } from "./secrets-manager.js";
