import { defined } from "../base/defined.js";
import { refuseUnknown, requireDuration } from "../queue/arguments.js";
import { createTenantStores, type TenantStoresOptions } from "../tenants/connections/tenant-stores.js";
import { fanOutDefaults } from "../tenants/fan-out/fan-out-dispatcher.js";
import { requireTenantBatchSize } from "../tenants/fan-out/fan-out-job.js";
import {
  createTenantDispatcher,
  type TenantDispatcherOptions,
} from "../tenants/scheduling/tenant-dispatcher.js";
import type { AppTenants } from "./app-tenants.js";
import { openTenants } from "./open-tenants.js";

type StoreOptions = Pick<
  TenantStoresOptions,
  "discover" | "allow" | "refreshMs" | "discoverMs" | "connections" | "open"
>;
type TurnOptions = Pick<TenantDispatcherOptions, "selection" | "concurrency" | "turnMs" | "pollTimeoutMs">;

export interface MultiTenantOptions extends StoreOptions, TurnOptions {
  /** Tenants in a batch, where the platform can start workers: 250 by default. */
  readonly tenantBatchSize?: number;
  /** The time between two timers of the dispatcher: 60 s by default. */
  readonly periodMs?: number;
}

const known = [
  ...["discover", "allow", "refreshMs", "discoverMs", "connections", "open"],
  ...["selection", "concurrency", "turnMs", "pollTimeoutMs", "tenantBatchSize", "periodMs"],
];

/**
 * For `tenants` of `defineApp`: the app's functions then serve all tenants that `discover` returns.
 *
 * @example
 * export default defineApp({
 *   tenants: multiTenant({
 *     discover: tenantsFromCatalogue({ database: { from: "env", name: "CATALOGUE_URL" } }),
 *     allow: { kinds: ["postgres"], hosts: ["db.example.com"] },
 *   }),
 *   handlers: ({ outbox }) => ({ "order.placed": (message) => outbox.enqueue({ topic: "order.confirm", payload: message.payload }) }),
 * });
 */
export function multiTenant(options: MultiTenantOptions): AppTenants {
  refuseUnknown(options, known, "multiTenant");
  const { discover, allow, refreshMs, discoverMs, connections, open } = options;
  const { selection, concurrency, turnMs, pollTimeoutMs } = options;
  const { tenantBatchSize, periodMs } = { ...fanOutDefaults, ...options };
  requireDuration(periodMs, "periodMs");
  requireTenantBatchSize(tenantBatchSize);
  const settings = {
    stores: { discover, ...defined({ allow, refreshMs, discoverMs, connections, open }) },
    turns: defined({ selection, concurrency, turnMs, pollTimeoutMs }),
    tenantBatchSize,
    periodMs,
  };
  // Made only for their checks, so that a wrong option is an error at once: neither does anything before it is called.
  const tenants = createTenantStores(settings.stores);
  createTenantDispatcher({
    ...settings.turns,
    tenants,
    dispatchers: { inbox: undefined, outbox: undefined },
  });
  return { open: (context) => openTenants(settings, context) };
}
