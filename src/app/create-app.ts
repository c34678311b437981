import type { Logger } from "../base/logger.js";
import { type MigrateOptions, type MigrateResult, migrate } from "../sql/migrate.js";
import type { TenantStoreProvider } from "../tenants/connections/tenant-stores.js";
import { toResponse } from "../webhooks/http.js";
import type { WebhookRoute } from "../webhooks/route.js";
import type { AppDefinition, AppParts } from "./app-definition.js";
import type { Platform } from "./app-frame.js";
import { type ConsumeJob, consumeJob } from "./consume-job.js";
import { type DispatchJob, dispatchJob } from "./dispatch-job.js";
import { cleanupJob, type MaintenanceJob, reapJob } from "./maintenance-jobs.js";
import { openApp } from "./open-app.js";
import { webhookJob } from "./webhook-job.js";

/** A whole app in one process, for the local run and the command line. A cloud's function takes one of the jobs. */
export interface App extends AppParts {
  readonly logger: Logger;
  /** The stores of its tenants, where it has many; `db`, `inbox` and `outbox` are not to be used then. */
  readonly tenants: TenantStoreProvider | undefined;
  readonly webhook: WebhookRoute;
  readonly dispatch: DispatchJob;
  /** Where the definition has a consumer. */
  readonly consume: ConsumeJob | undefined;
  readonly reap: MaintenanceJob;
  readonly cleanup: MaintenanceJob;
  /** The schema and tables that this app uses. */
  readonly migrateOptions: MigrateOptions;
  migrate(): Promise<MigrateResult>;
  close(): Promise<void>;
}

/** Puts an app together. Opens no connection: the first call that needs one does. */
export async function createApp(definition: AppDefinition, platform: Platform): Promise<App> {
  const app = await openApp(definition, platform);
  const { db, inbox, outbox, logger, tenants } = app;
  const migrateOptions = migrateOptionsOf(definition);
  const receive = webhookJob(app);
  return {
    db,
    inbox,
    outbox,
    logger,
    migrateOptions,
    webhook: async (request) => toResponse(await receive(request)),
    dispatch: dispatchJob(app),
    consume: definition.consumer === undefined ? undefined : consumeJob(app),
    reap: reapJob(app),
    cleanup: cleanupJob(app),
    tenants: tenants?.stores,
    migrate: () => (tenants === undefined ? migrate(db, migrateOptions) : tenants.migrate()),
    close: () => (tenants ?? db).close(),
  };
}

function migrateOptionsOf({ schema, inbox, outbox }: AppDefinition): MigrateOptions {
  return {
    ...(schema === undefined ? {} : { schema }),
    ...(inbox?.table === undefined ? {} : { inbox: inbox.table }),
    ...(outbox?.table === undefined ? {} : { outbox: outbox.table }),
  };
}
