export type { AllowedDatabases, AllowedKind } from "../config/allowed-databases.js";
export type { ConnectionLimits } from "./connections/connection-limits.js";
export type { TenantStoreProvider, TenantStores, TenantStoresOptions } from "./connections/tenant-stores.js";
export { createTenantStores } from "./connections/tenant-stores.js";
export type { DiscoveryContext, TenantDiscovery } from "./discovery/discovery.js";
export type { CatalogueOptions } from "./discovery/from-catalogue.js";
export { catalogueTable, tenantsFromCatalogue } from "./discovery/from-catalogue.js";
export type { ConfiguredTenant } from "./discovery/from-configuration.js";
export { tenantsFromConfiguration } from "./discovery/from-configuration.js";
export type { FanOutDispatcher, FanOutOptions, FanOutReport } from "./fan-out/fan-out-dispatcher.js";
export { createFanOutDispatcher } from "./fan-out/fan-out-dispatcher.js";
export type { FanOut, TenantBatch } from "./fan-out/tenant-batch.js";
export { tenantBatchesIn, tenantBatchIn, tenantBatchMessage } from "./fan-out/tenant-batch.js";
export { fair } from "./scheduling/fair.js";
export type { TenantRunResult } from "./scheduling/run-tenants.js";
export type { Selection, SelectionStrategy, TurnEnd } from "./scheduling/selection.js";
export { drainFirst, roundRobin } from "./scheduling/selection.js";
export type {
  TenantDispatcher,
  TenantDispatcherOptions,
  TenantDispatchReport,
} from "./scheduling/tenant-dispatcher.js";
export { createTenantDispatcher } from "./scheduling/tenant-dispatcher.js";
export type { TenantDispatchers } from "./scheduling/tenant-turn.js";
export type { TenantWorker, TenantWorkerOptions } from "./scheduling/tenant-worker.js";
export { createTenantWorker } from "./scheduling/tenant-worker.js";
export type { Tenant } from "./tenant.js";
export { tenantKey } from "./tenant.js";
