import type { Logger } from "../base/logger.js";
import type { Environment } from "../config/environment.js";
import type { SecretResolver } from "../config/secret-reference.js";
import type { Inbox } from "../inbox/inbox.js";
import type { MigrateResult } from "../sql/migrate.js";
import type { SignIn, TenantStoreProvider } from "../tenants/connections/tenant-stores.js";
import type { FanOut } from "../tenants/fan-out/tenant-batch.js";
import type { ReceivedWebhook } from "../webhooks/route-options.js";
import type { AppDefinition } from "./app-definition.js";
import type { DispatchJob } from "./dispatch-job.js";
import type { MaintenanceJob } from "./maintenance-jobs.js";
import type { WakeUp } from "./wake-up.js";

export interface TenantsContext extends SignIn {
  readonly definition: AppDefinition;
  readonly environment: Environment;
  readonly resolveSecret: SecretResolver;
  readonly logger: Logger;
  readonly wakeUp: WakeUp | undefined;
  /** Undefined: one function serves all tenants. */
  readonly fanOut: FanOut | undefined;
}

/** Every job of an app, for all of its tenants. */
export interface OpenTenants {
  readonly stores: TenantStoreProvider;
  readonly dispatch: DispatchJob;
  readonly reap: MaintenanceJob;
  readonly cleanup: MaintenanceJob;
  inboxFor(webhook: ReceivedWebhook): Promise<Inbox>;
  /** Wakes a worker for the tenant of a stored webhook. */
  wake(webhook: ReceivedWebhook): Promise<void>;
  /** Whether the dispatcher of this process leaves the tenant alone for a while, because a turn failed. */
  isQuarantined(id: string): boolean;
  migrate(): Promise<MigrateResult>;
  close(): Promise<void>;
}

/** Only a type here, so that the bundle of an app with one database holds no code for tenants: `multiTenant(…)` returns it. */
export interface AppTenants {
  open(context: TenantsContext): OpenTenants;
}
