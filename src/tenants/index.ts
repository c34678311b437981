export type { AllowedDatabases, AllowedKind } from "../config/allowed-databases.js";
export type { ConnectionLimits } from "./connections/connection-budget.js";
export type { TenantStoreProvider, TenantStores, TenantStoresOptions } from "./connections/tenant-stores.js";
export { createTenantStores } from "./connections/tenant-stores.js";
export type { CatalogueOptions, ConfiguredTenant } from "./discovery/sources.js";
export { catalogueTable, tenantsFromCatalogue, tenantsFromConfiguration } from "./discovery/sources.js";
export type { FanOut, TenantBatch } from "./fan-out/tenant-batch.js";
export { fair } from "./scheduling/fair.js";
export type { TenantRunResult } from "./scheduling/run-tenants.js";
export type { Selection, SelectionStrategy, TurnEnd } from "./scheduling/selection.js";
export { drainFirst, roundRobin } from "./scheduling/selection.js";
export type {
  TenantDispatcher,
  TenantDispatcherOptions,
  TenantDispatchers,
  TenantDispatchReport,
} from "./scheduling/tenant-dispatcher.js";
export { createTenantDispatcher } from "./scheduling/tenant-dispatcher.js";
export type { TenantWorker, TenantWorkerOptions } from "./scheduling/tenant-worker.js";
export { createTenantWorker } from "./scheduling/tenant-worker.js";
export type { DiscoveryContext, Tenant, TenantDiscovery } from "./tenant.js";
