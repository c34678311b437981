import type { Environment } from "../config/environment.js";
import { databaseUrlForms, openDatabase } from "../config/open-database.js";
import { type SecretResolver, secretsFromEnvironment } from "../config/secret-reference.js";
import { InvalidOperationError } from "../errors.js";
import { createInbox } from "../inbox/inbox.js";
import { createOutbox } from "../outbox/outbox.js";
import type { Budget } from "../queue/budget.js";
import { createDispatcher } from "../queue/dispatcher.js";
import type { Handlers } from "../queue/handlers.js";
import { guardedLogger, type Logger } from "../queue/logger.js";
import { type MaintenanceResult, purgeWithin, reapWithin } from "../queue/maintenance.js";
import type { QueueMessage } from "../queue/message.js";
import type { Database } from "../sql/dialect.js";
import type { SqlExecutor } from "../sql/driver.js";
import { type MigrateOptions, type MigrateResult, migrate } from "../sql/migrate.js";
import { jsonLogger } from "../telemetry/json-logger.js";
import { createWebhookRoute } from "../webhooks/route.js";
import type { AppDefinition, AppParts } from "./app-definition.js";
import { webhookSources } from "./app-sources.js";
import { type DispatchReport, dispatchAll } from "./dispatch-all.js";
import { coalesced, type WakeUp } from "./wake-up.js";

export interface MaintenanceReport {
  readonly inbox: MaintenanceResult;
  readonly outbox: MaintenanceResult;
}

/** A running app. Each cloud's functions, the local run and the command line call these and nothing else. */
export interface App extends AppParts {
  readonly logger: Logger;
  webhook(request: Request): Promise<Response>;
  /** `wokenUp`: look once more after a moment, because a burst is announced once. */
  dispatch(budget: Budget, options?: { readonly wokenUp?: boolean }): Promise<DispatchReport>;
  reap(budget: Budget): Promise<MaintenanceReport>;
  cleanup(budget: Budget): Promise<MaintenanceReport>;
  /** The schema and tables that this app uses. */
  readonly migrateOptions: MigrateOptions;
  migrate(): Promise<MigrateResult>;
  close(): Promise<void>;
}

export interface Platform {
  readonly environment: Environment;
  /** Where secrets that are only referred to are fetched from; the environment's variables by default. */
  readonly resolveSecret?: SecretResolver;
  /** Starts a dispatcher after a webhook's commit, and a successor when time ran out. */
  readonly wakeUp?: WakeUp;
  readonly maxConnections?: number;
  /** Instead of the definition's. */
  readonly logger?: Logger;
}

/** Puts an app together. Opens no connection: the first call that needs one does. */
export async function createApp(definition: AppDefinition, platform: Platform): Promise<App> {
  const { environment } = platform;
  const resolveSecret = platform.resolveSecret ?? secretsFromEnvironment(environment.env);
  const logger = guardedLogger(platform.logger ?? definition.logger ?? jsonLogger(environment.logLevel));
  const db = await databaseOf(definition, platform, resolveSecret);
  const schema = definition.schema === undefined ? {} : { schema: definition.schema };
  const metrics = definition.metrics === undefined ? {} : { metrics: definition.metrics };
  const inbox = createInbox(db, { ...definition.inbox, ...schema, logger });
  const outbox = createOutbox(db, { ...definition.outbox, ...schema, logger });
  const parts: AppParts = { db, inbox, outbox };
  const wakeUp = platform.wakeUp === undefined ? undefined : coalesced(platform.wakeUp);

  const dispatcherOf = <Message extends QueueMessage>(
    handlers:
      | Handlers<Message, SqlExecutor>
      | ((parts: AppParts) => Handlers<Message, SqlExecutor>)
      | undefined,
  ) =>
    handlers === undefined
      ? undefined
      : createDispatcher<Message, SqlExecutor>({
          ...definition.dispatch,
          ...metrics,
          handlers: typeof handlers === "function" ? handlers(parts) : handlers,
          logger,
        });
  const incoming = dispatcherOf(definition.handlers);
  const outgoing = dispatcherOf(definition.publishers);

  const sources = webhookSources(definition.sources ?? {}, environment.sources ?? {}, resolveSecret);
  const hasSources = Object.keys(sources).length > 0; // a function that only dispatches needs none
  const route = hasSources
    ? createWebhookRoute({
        ...definition.webhooks,
        ...(environment.publicUrl === undefined ? {} : { publicUrl: environment.publicUrl }),
        ...metrics,
        inbox,
        logger,
        sources,
        ...(wakeUp === undefined ? {} : { afterEnqueue: () => wakeUp.wake() }),
      })
    : noWebhooks;

  const retentionMs = definition.retentionMs === undefined ? {} : { retentionMs: definition.retentionMs };
  const tableOf = (kind: "inbox" | "outbox") => {
    const table = definition[kind]?.table;
    return table === undefined ? {} : { [kind]: table };
  };

  const migrateOptions: MigrateOptions = { ...schema, ...tableOf("inbox"), ...tableOf("outbox") };

  return {
    ...parts,
    logger,
    migrateOptions,
    webhook: route,
    async dispatch(budget, options = {}) {
      const jobs = {
        inbox: incoming && ((left: Budget) => incoming.run(inbox, left)),
        outbox: outgoing && ((left: Budget) => outgoing.run(outbox, left)),
      };
      const report = await dispatchAll(jobs, budget, options.wokenUp ?? false);
      if (report.more) await wakeSuccessor(platform.wakeUp, logger);
      return report;
    },
    async reap(budget) {
      return { inbox: await reapWithin(inbox, budget), outbox: await reapWithin(outbox, budget) };
    },
    async cleanup(budget) {
      return {
        inbox: await purgeWithin(inbox, budget, retentionMs),
        outbox: await purgeWithin(outbox, budget, retentionMs),
      };
    },
    migrate: () => migrate(db, migrateOptions),
    close: () => db.close(),
  };
}

const noWebhooks = async (): Promise<Response> =>
  Response.json({ error: "There are no webhook sources here." }, { status: 404 });

/** The timer would go on later anyway, so a failure is only told. */
async function wakeSuccessor(wakeUp: WakeUp | undefined, logger: Logger): Promise<void> {
  try {
    await wakeUp?.wake();
  } catch (error) {
    logger.warn("waking a successor failed", { error: (error as Error)?.name ?? "Error" });
  }
}

async function databaseOf(
  definition: AppDefinition,
  { environment, maxConnections }: Platform,
  resolveSecret: SecretResolver,
): Promise<Database> {
  const from = environment.databaseUrl ?? definition.database;
  if (typeof from === "function") return from();
  if (from === undefined) {
    throw new InvalidOperationError(`There is no database. Set ONCEBOX_DATABASE_URL to ${databaseUrlForms}.`);
  }
  const url = typeof from === "string" ? from : await resolveSecret(from);
  return openDatabase(url, maxConnections === undefined ? {} : { maxConnections });
}
