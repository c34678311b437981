import { omitUndefined } from "../base/defined.js";
import { jsonLogger, type Logger, type LoggerOption, loggerOf } from "../base/logger.js";
import {
  databaseUrlForms,
  type OpenDatabaseOptions,
  openByUrl,
  openDatabase,
} from "../config/database-url.js";
import type { Environment } from "../config/environment.js";
import { receivingOpeners } from "../config/receiving-openers.js";
import { type SecretResolver, secretsFromEnvironment } from "../config/secret-reference.js";
import { InvalidArgumentError, InvalidOperationError } from "../errors.js";
import { createInbox, type Inbox } from "../inbox/inbox.js";
import { createInboxReceiver, type InboxReceiver } from "../inbox/receiver.js";
import { createOutbox, type Outbox } from "../outbox/outbox.js";
import type { QueueKind } from "../queue/work-store.js";
import type { Database, ReceivingDatabase } from "../sql/dialect.js";
import type { MigrateOptions } from "../sql/migrate.js";
import { type QueueParts, queueParts } from "../sql/store.js";
import { resolveStoreOptions } from "../sql/store-options.js";
import type { SignIn } from "../tenants/connections/tenant-stores.js";
import type { FanOut } from "../tenants/fan-out/tenant-batch.js";
import { type AppDefinition, type AppParts, requireKind } from "./definition.js";
import type { OpenTenants } from "./multi-tenant.js";
import type { WakeUp } from "./wake-up.js";

/**
 * The parts that the jobs of an app share. Jobs are kept apart, so that the bundle of a function holds only its own.
 */
export interface OpenApp extends AppContext, AppParts {
  /** What the calls of a queue work with, for those that need no whole inbox or outbox. */
  partsFor(kind: QueueKind): QueueParts;
  close(): Promise<void>;
}

/** Opens no connection: the first call that needs one opens it. */
export async function openApp(definition: AppDefinition, platform: Platform): Promise<OpenApp> {
  const context = appContext(definition, platform);
  const { tenants } = context;
  if (tenants !== undefined)
    return { ...context, ...noParts(), partsFor: () => absent("queue"), close: () => tenants.close() };
  const db = await databaseOf(context, platform, openDatabase);
  const options = storeOptionsOf(context);
  const optionsOf = (kind: QueueKind) =>
    resolveStoreOptions<never>(db, kind, { ...definition[kind], ...options });
  optionsOf("inbox"); // wrong ones are refused now, and not by the first message
  let inbox: Inbox | undefined;
  let outbox: Outbox | undefined;
  return {
    ...context,
    db,
    partsFor: (kind) => queueParts(db, kind, optionsOf(kind)),
    get inbox() {
      inbox ??= createInbox(db, { ...definition.inbox, ...options, topics: definition.topics });
      return inbox;
    },
    get outbox() {
      outbox ??= createOutbox(db, { ...definition.outbox, ...options, topics: definition.topics });
      return outbox;
    },
    close: () => db.close(),
  };
}

/** The parts of an app with many tenants that only an app with one database has: any use is an error that says so. */
const absent = <Part extends object>(name: string): Part =>
  new Proxy({} as Part, {
    get() {
      throw new InvalidOperationError(`An app with tenants has no ${name} of its own: each tenant has one.`);
    },
  });
const noParts = (): AppParts => ({ db: absent("db"), inbox: absent("inbox"), outbox: absent("outbox") });

/** An app that can only receive webhooks. */
interface ReceivingApp extends AppContext {
  /** Undefined for an app with many tenants: each tenant has a database. */
  readonly db: ReceivingDatabase | undefined;
  readonly inbox: InboxReceiver | undefined;
}

/** Opens no connection. A function with only this has a third less code to load at a cold start than one with `openApp`. */
export async function openReceivingApp(definition: AppDefinition, platform: Platform): Promise<ReceivingApp> {
  const context = appContext(definition, platform);
  if (context.tenants !== undefined) return { ...context, db: undefined, inbox: undefined };
  const db = await databaseOf(context, platform, (url, options) => openByUrl(receivingOpeners, url, options));
  const inbox = createInboxReceiver(db, { ...definition.inbox, ...storeOptionsOf(context) });
  return { ...context, db, inbox };
}

/** What the host of an app provides: settings, secrets, wake-ups. */
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
export async function databaseOf<Opened extends ReceivingDatabase>(
  { definition, environment, resolveSecret }: AppContext,
  { maxConnections }: Platform,
  open: (url: string, options: OpenDatabaseOptions) => Promise<Opened>,
): Promise<Opened | Database> {
  const from = environment.databaseUrl ?? definition.database;
  const ofKind = <Of extends ReceivingDatabase>(db: Of): Of => requireKind(definition, db);
  if (typeof from === "function") return ofKind(await from());
  if (from === undefined) {
    throw new InvalidArgumentError(`There is no database. Set ONCEBOX_DATABASE_URL to ${databaseUrlForms}.`);
  }
  const url = typeof from === "string" ? from : await resolveSecret(from);
  return ofKind(await open(url, omitUndefined({ maxConnections })));
}

export const migrateOptionsOf = ({ schema, inbox, outbox }: AppDefinition): MigrateOptions =>
  omitUndefined({ schema, inbox: inbox?.table, outbox: outbox?.table });
