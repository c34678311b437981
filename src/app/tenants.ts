export type { AllowedDatabases } from "../config/allowed-databases.js";
export {
  createTenantStores,
  type TenantStoreProvider,
  type TenantStores,
  type TenantStoresOptions,
} from "../tenants/connections/tenant-stores.js";
export {
  type CatalogueOptions,
  catalogueTable,
  tenantsFromCatalogue,
  tenantsFromConfiguration,
} from "../tenants/discovery/sources.js";
export type { FanOut, TenantBatch } from "../tenants/fan-out/tenant-batch.js";
export { fair } from "../tenants/scheduling/fair-selection.js";
export type { TenantRunResult } from "../tenants/scheduling/run-tenants.js";
export { drainFirst, roundRobin, type SelectionStrategy } from "../tenants/scheduling/selection.js";
export type {
  TenantDispatcher,
  TenantDispatcherOptions,
  TenantDispatchReport,
} from "../tenants/scheduling/tenant-dispatcher.js";
export {
  createTenantWorker,
  type TenantWorker,
  type TenantWorkerOptions,
} from "../tenants/scheduling/tenant-worker.js";
export type { Tenant, TenantDiscovery } from "../tenants/tenant.js";
export { type MultiTenantOptions, multiTenant } from "./multi-tenant.js";
