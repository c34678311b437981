export type { AllowedDatabases, AllowedKind } from "../config/allowed-databases.js";
export type { ConnectionLimits } from "./connections/connection-budget.js";
export {
  createTenantStores,
  type TenantStoreProvider,
  type TenantStores,
  type TenantStoresOptions,
} from "./connections/tenant-stores.js";
export {
  type CatalogueOptions,
  type ConfiguredTenant,
  catalogueTable,
  tenantsFromCatalogue,
  tenantsFromConfiguration,
} from "./discovery/sources.js";
export type { FanOut, TenantBatch } from "./fan-out/tenant-batch.js";
export { fair } from "./scheduling/fair-selection.js";
export type { TenantRunResult } from "./scheduling/run-tenants.js";
export {
  drainFirst,
  roundRobin,
  type Selection,
  type SelectionStrategy,
  type TurnEnd,
} from "./scheduling/selection.js";
export {
  createTenantDispatcher,
  type TenantDispatcher,
  type TenantDispatcherOptions,
  type TenantDispatchers,
  type TenantDispatchReport,
} from "./scheduling/tenant-dispatcher.js";
export {
  createTenantWorker,
  type TenantWorker,
  type TenantWorkerOptions,
} from "./scheduling/tenant-worker.js";
export type { DiscoveryContext, Tenant, TenantDiscovery } from "./tenant.js";
