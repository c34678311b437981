import { guardedLogger, type Logger } from "../base/logger.js";
import { databaseUrlForms, type OpenDatabaseOptions } from "../config/database-url.js";
import type { Environment } from "../config/environment.js";
import { type SecretResolver, secretsFromEnvironment } from "../config/secret-reference.js";
import { InvalidArgumentError } from "../errors.js";
import type { Database } from "../sql/dialect.js";
import { jsonLogger } from "../telemetry/json-logger.js";
import type { FanOut } from "../tenants/fan-out/tenant-batch.js";
import type { AppDefinition } from "./app-definition.js";
import type { OpenTenants } from "./app-tenants.js";
import type { WakeUp } from "./wake-up.js";

export interface Platform {
  readonly environment: Environment;
  /** Where secrets that are only referred to are fetched from; the environment's variables by default. */
  readonly resolveSecret?: SecretResolver;
  /** Starts a dispatcher after a webhook's commit, and a successor when time ran out. */
  readonly wakeUp?: WakeUp;
  /** Starts workers for shares of many tenants. */
  readonly fanOut?: FanOut;
  readonly maxConnections?: number;
  /** Instead of the definition's. */
  readonly logger?: Logger;
}

/** What every job of an app has, whatever it does with the database. */
export interface AppFrame {
  readonly definition: AppDefinition;
  readonly environment: Environment;
  readonly resolveSecret: SecretResolver;
  readonly wakeUp: WakeUp | undefined;
  readonly logger: Logger;
  /** Then there is no database of the app's own. */
  readonly tenants: OpenTenants | undefined;
}

export function frameOf(definition: AppDefinition, platform: Platform): AppFrame {
  const { environment, wakeUp, fanOut } = platform;
  const resolveSecret = platform.resolveSecret ?? secretsFromEnvironment(environment.env);
  const logger = guardedLogger(platform.logger ?? definition.logger ?? jsonLogger(environment.logLevel));
  const common = { definition, environment, resolveSecret, wakeUp, logger };
  return { ...common, tenants: definition.tenants?.open({ ...common, fanOut }) };
}

/** What the inbox and the outbox of an app are told beside their own options. */
export const storeOptionsOf = ({ definition: { schema }, logger }: AppFrame) => ({
  ...(schema === undefined ? {} : { schema }),
  logger,
});

/** As the environment or the definition says; `open` makes it of a URL. */
export async function databaseOf<Opened>(
  { definition, environment, resolveSecret }: AppFrame,
  { maxConnections }: Platform,
  open: (url: string, options: OpenDatabaseOptions) => Promise<Opened>,
): Promise<Opened | Database> {
  const from = environment.databaseUrl ?? definition.database;
  if (typeof from === "function") return from();
  if (from === undefined) {
    throw new InvalidArgumentError(`There is no database. Set ONCEBOX_DATABASE_URL to ${databaseUrlForms}.`);
  }
  const url = typeof from === "string" ? from : await resolveSecret(from);
  return open(url, maxConnections === undefined ? {} : { maxConnections });
}
