import type { Admin } from "../admin/create-admin.js";
import type { Logger } from "../base/logger.js";
import { InvalidArgumentError } from "../errors.js";
import { toWebResponse } from "../http/plain.js";
import type { InboxService } from "../inbox-store/http/inbox-service.js";
import type { PurgeWithinOptions } from "../queue/maintenance.js";
import { retryPolicy } from "../queue/retry-policy.js";
import type { QueueKind } from "../queue/work-store.js";
import { whyNotBackedUp } from "../sql/backup-source.js";
import type { Database } from "../sql/dialect.js";
import { type MigrateOptions, type MigrateResult, migrate } from "../sql/migrate.js";
import type { TenantStoreProvider } from "../tenants/connections/tenant-stores.js";
import type { TenantDispatchers } from "../tenants/scheduling/tenant-dispatcher.js";
import { type ConsumeJob, consumeJob } from "./consume-job.js";
import type { AppDefinition, AppParts } from "./definition.js";
import { appDispatchers, type DispatchJob, dispatchJob } from "./dispatch-job.js";
import { cleanupJob, type MaintenanceJob, reapJob, retentionsOf } from "./maintenance-jobs.js";
import { migrateOptionsOf, type OpenApp, openApp, type Platform } from "./open-app.js";
import { noWebhooks } from "./sources.js";

/** All jobs of an app in one process. A function of AWS has one of them, a function app of Azure and the command line have all. */
export interface AppJobs extends AppParts {
  readonly logger: Logger;
  /** The stores of an app with many tenants, which has no `db`, `inbox` and `outbox` of its own. */
  readonly tenants: TenantStoreProvider | undefined;
  readonly webhook: (request: Request) => Promise<Response>;
  readonly dispatch: DispatchJob;
  /** Those of an app with one database. */
  readonly dispatchers: TenantDispatchers | undefined;
  /** Undefined where the definition has no consumer. */
  readonly consume: ConsumeJob | undefined;
  /** The inbox as a service; undefined where the definition has none. */
  readonly service: InboxService | undefined;
  /** The diagnostics API; undefined where the definition has none. */
  readonly admin: Admin | undefined;
  readonly reap: MaintenanceJob;
  readonly cleanup: MaintenanceJob;
  /** The attempts that a queue's messages have, where their handlers do not say otherwise. */
  readonly maxAttempts: Readonly<Record<QueueKind, number>>;
  /** How long it keeps what the clean-up deletes, where it says so. */
  readonly retentions: Readonly<Record<QueueKind, PurgeWithinOptions>>;
  /** The schema and tables that this app uses. */
  readonly migrateOptions: MigrateOptions;
  migrate(): Promise<MigrateResult>;
  close(): Promise<void>;
}

/** Opens no connection: the first call that needs one opens it. */
export const openJobs = async (definition: AppDefinition, platform: Platform): Promise<AppJobs> =>
  jobsOf(await openApp(definition, platform));

export async function jobsOf(app: OpenApp): Promise<AppJobs> {
  const { definition, environment, db, inbox, outbox, logger, tenants } = app;
  const migrateOptions = migrateOptionsOf(definition);
  // These are loaded only for an app that has them: each would be a fifth of what other apps load at a cold start.
  const sources = { ...definition.sources, ...environment.sources };
  const receive =
    Object.keys(sources).length === 0
      ? noWebhooks(logger)
      : await (await import("./webhook-job.js")).webhookJob(app);
  const served = definition.service && (await (await import("./service-job.js")).serveInbox(app));
  const admin = definition.admin && (await import("./admin-job.js")).adminJob(app);
  const dispatchers = tenants === undefined ? appDispatchers(app, app) : undefined;
  return {
    db,
    inbox,
    outbox,
    logger,
    migrateOptions,
    webhook: async (request) => toWebResponse(await receive(request)),
    dispatch: dispatchJob(app, dispatchers),
    dispatchers,
    consume: definition.consumer === undefined ? undefined : consumeJob(app),
    service: served?.service,
    admin,
    reap: reapJob(app),
    cleanup: cleanupJob(app),
    maxAttempts: { inbox: maxAttemptsOf(definition, "inbox"), outbox: maxAttemptsOf(definition, "outbox") },
    retentions: retentionsOf(app),
    tenants: tenants?.stores,
    migrate: () => (tenants === undefined ? migrate(db, migrateOptions) : tenants.migrate()),
    async close() {
      await served?.close();
      await app.close();
    },
  };
}

/** As the dispatcher decides: its own policy replaces that of the queue. */
const maxAttemptsOf = (definition: AppDefinition, queue: QueueKind): number =>
  retryPolicy(definition.dispatch?.retry ?? definition[queue]?.retry).maxAttempts;

/** The databases of an app, each once: tenants may share one. Opens no connection. */
export async function appDatabases({
  db,
  tenants,
}: Pick<AppJobs, "db" | "tenants">): Promise<readonly Database[]> {
  if (tenants === undefined) return [db];
  const found = new Map<string, Database>();
  for (const key of await tenants.distinctStores()) {
    const { db: own } = await tenants.stores(key);
    found.set(own.id, own);
  }
  return [...found.values()];
}

export interface BackedUpDatabases {
  readonly databases: readonly Database[];
  /** Why the others are left out. */
  readonly notes: readonly string[];
}

/** Tenants may be on several kinds of databases; those in SQLite files are backed up. Refused when there is none. */
export function backedUpDatabases(all: readonly Database[]): BackedUpDatabases {
  const notes = all.flatMap((database) => whyNotBackedUp(database) ?? []);
  const databases = all.filter((database) => whyNotBackedUp(database) === undefined);
  if (databases.length === 0)
    throw new InvalidArgumentError(notes.join("\n") || "There is no tenant, so there is nothing to back up.");
  return { databases, notes };
}
