import { omitUndefined } from "../base/defined.js";
import { jsonLogger, type Logger, type LoggerOption, loggerOf } from "../base/logger.js";
import { databaseUrlForms, type OpenDatabaseOptions } from "../config/database-url.js";
import type { Environment } from "../config/environment.js";
import { type SecretResolver, secretsFromEnvironment } from "../config/secret-reference.js";
import { InvalidArgumentError } from "../errors.js";
import type { Database } from "../sql/dialect.js";
import type { MigrateOptions } from "../sql/migrate.js";
import type { SignIn } from "../tenants/connections/tenant-stores.js";
import type { FanOut } from "../tenants/fan-out/tenant-batch.js";
import type { AppDefinition } from "./definition.js";
import type { OpenTenants } from "./multi-tenant.js";
import type { WakeUp } from "./wake-up.js";

export interface Platform extends SignIn {
  readonly environment: Environment;
  /** Fetches secrets by reference; from the environment's variables by default. */
  readonly resolveSecret?: SecretResolver;
  /** Starts a dispatcher after a webhook's commit, and another one when a dispatcher's time is over before its work. */
  readonly wakeUp?: WakeUp;
  /** Sends tenant batches to workers. */
  readonly fanOut?: FanOut;
  readonly maxConnections?: number;
  /** Instead of the definition's logger. */
  readonly logger?: LoggerOption;
}

/** The parts that every job of an app has, whether it needs a database or not. */
export interface AppContext {
  readonly definition: AppDefinition;
  readonly environment: Environment;
  readonly resolveSecret: SecretResolver;
  readonly wakeUp: WakeUp | undefined;
  readonly logger: Logger;
  /** Set for an app with many tenants, which has no database of its own. */
  readonly tenants: OpenTenants | undefined;
}

export function appContext(definition: AppDefinition, platform: Platform): AppContext {
  const { environment, wakeUp, fanOut, signInAs } = platform;
  const resolveSecret = platform.resolveSecret ?? secretsFromEnvironment(environment.env);
  const logger = loggerOf(platform.logger ?? definition.logger ?? jsonLogger(environment.logLevel));
  const common = { definition, environment, resolveSecret, wakeUp, logger };
  return { ...common, tenants: definition.tenants?.open({ ...common, fanOut, signInAs }) };
}

/** Options that the inbox and the outbox of an app share. */
export const storeOptionsOf = ({
  definition: { schema, metrics, tracing },
  logger,
}: Pick<AppContext, "definition" | "logger">) => ({
  ...omitUndefined({ schema, metrics, tracing }),
  logger,
});

/** The database that the environment or the definition names; `open` opens a URL. */
export async function databaseOf<Opened>(
  { definition, environment, resolveSecret }: AppContext,
  { maxConnections }: Platform,
  open: (url: string, options: OpenDatabaseOptions) => Promise<Opened>,
): Promise<Opened | Database> {
  const from = environment.databaseUrl ?? definition.database;
  if (typeof from === "function") return from();
  if (from === undefined) {
    throw new InvalidArgumentError(`There is no database. Set ONCEBOX_DATABASE_URL to ${databaseUrlForms}.`);
  }
  const url = typeof from === "string" ? from : await resolveSecret(from);
  return open(url, omitUndefined({ maxConnections }));
}

export const migrateOptionsOf = ({ schema, inbox, outbox }: AppDefinition): MigrateOptions =>
  omitUndefined({ schema, inbox: inbox?.table, outbox: outbox?.table });
