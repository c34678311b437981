export { consumeFunction } from "./consume-function.js";
export type { DispatchFunctionReport } from "./dispatch-function.js";
export { dispatchFunction } from "./dispatch-function.js";
export type { JobFunction } from "./job-function.js";
export { cleanupFunction, reapFunction } from "./maintenance-functions.js";
export { tenantsFromSecretsManager } from "./tenants-from-secrets.js";
export type { WebhookFunction } from "./webhook-function.js";
export { webhookFunction } from "./webhook-function.js";
