export type { HttpFunction, JobFunction } from "./cold-start.js";
export { type EmfMetricsOptions, emfMetrics } from "./emf-metrics.js";
export {
  adminFunction,
  cleanupFunction,
  consumeFunction,
  type DispatchFunctionReport,
  dispatchFunction,
  inboxServiceFunction,
  reapFunction,
  recoverGithubFunction,
  webhookFunction,
} from "./functions.js";
export {
  messageDispatchFunction,
  messageMaintainFunction,
  messageReceiveFunction,
} from "./message-functions.js";
export { inbox, lambdaHttp, orderedMiddleware, outbox, transaction } from "./middleware.js";
export { type MigrateReport, migrateFunction } from "./migrate-function.js";
export { tenantsFromSecretsManager } from "./secrets-manager.js";
export { type SqsHandlerOptions, sqsHandler } from "./sqs.js";
