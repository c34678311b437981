import type { Environment } from "../config/environment.js";
import { databaseUrlForms, openDatabase } from "../config/open-database.js";
import { type SecretResolver, secretsFromEnvironment } from "../config/secret-reference.js";
import { InvalidArgumentError, InvalidOperationError } from "../errors.js";
import { createInbox } from "../inbox/inbox.js";
import { createOutbox, type Outbox } from "../outbox/outbox.js";
import { guardedLogger, type Logger } from "../queue/logger.js";
import type { Database } from "../sql/dialect.js";
import { jsonLogger } from "../telemetry/json-logger.js";
import type { FanOut } from "../tenants/share-message.js";
import type { AppDefinition, AppParts } from "./app-definition.js";
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

/**
 * What the jobs of an app share. Each job is in a file of its own, so that a function's bundle holds the one that it
 * does and not the others.
 */
export interface OpenApp extends AppParts {
  readonly definition: AppDefinition;
  readonly environment: Environment;
  readonly resolveSecret: SecretResolver;
  readonly wakeUp: WakeUp | undefined;
  readonly logger: Logger;
  /** Then there is no database of the app's own. */
  readonly tenants: OpenTenants | undefined;
}

/** Opens no connection: the first call that needs one does. */
export async function openApp(definition: AppDefinition, platform: Platform): Promise<OpenApp> {
  const { environment, wakeUp } = platform;
  const resolveSecret = platform.resolveSecret ?? secretsFromEnvironment(environment.env);
  const logger = guardedLogger(platform.logger ?? definition.logger ?? jsonLogger(environment.logLevel));
  const common = { definition, environment, resolveSecret, wakeUp, logger };
  if (definition.tenants !== undefined) {
    const tenants = definition.tenants.open({ ...common, fanOut: platform.fanOut });
    return { ...common, tenants, ...noParts };
  }
  const db = await databaseOf(definition, platform, resolveSecret);
  const schema = definition.schema === undefined ? {} : { schema: definition.schema };
  const inbox = createInbox(db, { ...definition.inbox, ...schema, logger });
  let outbox: Outbox | undefined;
  return {
    ...common,
    tenants: undefined,
    db,
    inbox,
    get outbox() {
      outbox ??= createOutbox(db, { ...definition.outbox, ...schema, logger });
      return outbox;
    },
  };
}

/** What an app with many tenants has instead of one database: any use of it says so. */
const absent = <Part extends object>(name: string): Part =>
  new Proxy({} as Part, {
    get() {
      throw new InvalidOperationError(`An app with tenants has no ${name} of its own: each tenant has one.`);
    },
  });
const noParts: AppParts = { db: absent("db"), inbox: absent("inbox"), outbox: absent("outbox") };

async function databaseOf(
  definition: AppDefinition,
  { environment, maxConnections }: Platform,
  resolveSecret: SecretResolver,
): Promise<Database> {
  const from = environment.databaseUrl ?? definition.database;
  if (typeof from === "function") return from();
  if (from === undefined) {
    throw new InvalidArgumentError(`There is no database. Set ONCEBOX_DATABASE_URL to ${databaseUrlForms}.`);
  }
  const url = typeof from === "string" ? from : await resolveSecret(from);
  return openDatabase(url, maxConnections === undefined ? {} : { maxConnections });
}
