import { type Logger, type LoggerOption, loggerProblem } from "../base/logger.js";
import type { Metrics, Tracing } from "../base/telemetry.js";
import { isSecretReference, type SecretReference } from "../config/secret-reference.js";
import type { DispatcherOptions } from "../dispatch/dispatcher.js";
import {
  type AsWritten,
  type FormOf,
  type HandlerDefinition,
  type HandlerEntry,
  type Handlers,
  type NoOwnSchemas,
  type NoSuch,
  type OnUnhandled,
  onUnhandledChoices,
  type ReturnedOf,
  type TopicPattern,
  type TypedHandlers,
  topicMatcher,
  type UnknownField,
} from "../dispatch/handlers.js";
import { InvalidArgumentError } from "../errors.js";
import type { AdminSettings } from "../http/admin-access.js";
import type { Inbox, InboxOptions } from "../inbox/inbox.js";
import type { InboxServiceSettings } from "../inbox-store/http/inbox-service.js";
import type { LeasingInboxStore } from "../inbox-store/inbox-store.js";
import type { TriggerMessage } from "../middleware/consume.js";
import type { Outbox, OutboxOptions } from "../outbox/outbox.js";
import type { InboxMessage, OutboxMessage, QueueMessage } from "../queue/message.js";
import { deadRetentionRule, isDeadRetention, type Retention, requireRetentions } from "../queue/retention.js";
import { checkTopics, type DataOf, type TopicSchemas } from "../queue/topics.js";
import { type QueueKind, queueKinds } from "../queue/work-store.js";
import type { Database, ReceivingDatabase } from "../sql/dialect.js";
import type { SqlExecutor } from "../sql/driver.js";
import type { AnyDatabase, DatabaseKind } from "../sql/native.js";
import { retentionProblem } from "../webhooks/replay-window.js";
import type { WebhookRouteOptions } from "../webhooks/route-options.js";
import type { WebhookScheme } from "../webhooks/schemes/scheme.js";
import { sharedNames } from "../webhooks/source-names.js";
import type { SchemesOf } from "../webhooks/sources.js";
import type { AppTenants } from "./multi-tenant.js";
import { shortestRetentionMs } from "./retention.js";
import type { AppSource, SecretOrReference } from "./sources.js";

/** Passed to a function that returns handlers. */
export interface AppParts<
  Topics extends TopicSchemas = TopicSchemas,
  Kind extends AnyDatabase = AnyDatabase,
> {
  /** The app's database. */
  readonly db: Database<Kind>;
  /** Its inbox. */
  readonly inbox: Inbox<Topics, Kind>;
  /** Its outbox. */
  readonly outbox: Outbox<Topics, Kind>;
}

type HandlersOf<Message extends QueueMessage> =
  | Handlers<Message, SqlExecutor>
  | ((parts: AppParts) => Handlers<Message, SqlExecutor>);

/** Everything about an app that does not depend on the platform. It is the default export of one file; `defineApp` makes it. */
export interface AppDefinition<
  Topics extends TopicSchemas = TopicSchemas,
  Kind extends AnyDatabase = AnyDatabase,
> extends AppSettings<Kind> {
  /** The only kind of database that the app works on: `defineApp.postgres` sets it, and its like. */
  readonly databaseKind?: (Kind & DatabaseKind) | undefined;
  readonly topics?: Topics | undefined;
  /** Handlers of inbox messages, by topic. */
  readonly handlers?: HandlersOf<InboxMessage>;
  /** Handlers of outbox messages, by topic. Without any this app does not dispatch its outbox. */
  readonly publishers?: HandlersOf<OutboxMessage>;
}

/** What `defineApp` takes. The compiler infers the last four types: the data of handlers' own schemas, and handlers as they are written. */
export interface AppOptions<
  Topics extends TopicSchemas,
  Kind extends AnyDatabase,
  Own,
  Made,
  OwnSent,
  MadeSent,
> extends AppSettings<Kind> {
  /**
   * A schema for each topic, received or sent: zod's or that of any other library of Standard Schema. It types `data` in handlers, in the
   * messages that handlers return and in `outbox.enqueue`, and checks it. With `topics`, no other topic can be sent.
   */
  readonly topics?: Topics | undefined;
  /** Handlers of inbox messages, by topic: functions, `{ schema, handle }` and other options, or a function that returns all of them. */
  readonly handlers?: AppHandlers<InboxMessage, Topics, Kind, Own, Made>;
  /** Handlers of outbox messages, by topic. Without any this app does not dispatch its outbox. */
  readonly publishers?: AppHandlers<OutboxMessage, Topics, Kind, OwnSent, MadeSent>;
}

/** Handlers by topic, or a function that makes them of the app's parts. */
type AppHandlers<Message, Topics extends TopicSchemas, Kind extends AnyDatabase, Own, Form> = (
  | TypedHandlers<Message, SqlExecutor<Kind>, Topics, Own, ReturnedOf<Topics>, Form>
  | MakeHandlers<Message, Topics, Kind, Own, Form>
) &
  AsWritten<Form>;

type MakeHandlers<Message, Topics extends TopicSchemas, Kind extends AnyDatabase, Own, Form> = (
  parts: AppParts<Topics, Kind>,
) => MadeHandlers<
  Message,
  SqlExecutor<Kind>,
  Topics,
  Own,
  Form extends (...args: never) => infer Made ? Made : unknown
>;

/** What types the handlers that a function returns. The compiler infers no schema in it. */
type MadeHandlers<Message, Tx, Topics extends TopicSchemas, Own, Made> = {
  readonly [Topic in keyof Own]: HandlerEntry<
    Message,
    Tx,
    DataOf<Topics, Topic, unknown>,
    ReturnedOf<Topics> & NoSuch<"a field of a message", UnknownField<Made[keyof Made]>>
  > &
    FormOf<Made[Topic & keyof Made]> &
    NoSuch<"an option of a handler", UnknownOption<Made[keyof Made]>> &
    SchemasInTopics<Made[keyof Made]>;
};

/** The compiler does not look for unknown properties in what a function returns. */
type UnknownOption<Entry> = Entry extends (...args: never) => unknown
  ? never
  : Exclude<keyof Entry & string, keyof HandlerDefinition<QueueMessage>>;
type SchemasInTopics<Entry> =
  Extract<Entry, { readonly schema: unknown }> extends never
    ? unknown
    : { readonly schema?: "A function that returns handlers has its schemas in topics" };

/** Where handlers are a function, they are compared with functions alone, so that the compiler's errors point into it. */
type InItsForm<Name extends string, Form, Make> = Form extends (...args: never) => unknown
  ? { readonly [Field in Name]: Make }
  : unknown;

/** The options of an app that are the same whatever its handlers are. */
interface AppSettings<Kind extends AnyDatabase> {
  /** A URL, a reference to where the URL is kept, or a function that opens the database. `ONCEBOX_DATABASE_URL` overrides it. */
  readonly database?: string | SecretReference | (() => Database<Kind> | Promise<Database<Kind>>);
  /** Many databases instead of one, discovered at run time: `multiTenant(…)` of `oncebox/tenants`. */
  readonly tenants?: AppTenants;
  /** The senders of webhooks, by the last part of the path. `ONCEBOX_WEBHOOKS` adds sources and overrides those of the same name. */
  readonly sources?: Readonly<Record<string, AppSource>>;
  /** Topics of inbox messages that are acknowledged without a handler: a provider sends more than an app needs. */
  readonly ignore?: readonly TopicPattern[];
  /**
   * What becomes of an inbox message without a handler. `"bySource"`, the default, acknowledges and reports it where it is of one of
   * `sources` that has other handlers, and retries it otherwise. Or `"retry"`, `"dead"` or `"ack"` for all of them.
   */
  readonly onUnhandled?: OnUnhandled;
  /**
   * Handles messages of a queue service. One transaction records that `subscriber` has handled the message and enqueues
   * the messages that `handle` returns in the outbox. Not available with `tenants`.
   */
  readonly consumer?: {
    readonly subscriber: string;
    readonly handle: (message: TriggerMessage) => unknown;
  };
  readonly inbox?: Omit<InboxOptions, "logger" | "schema">;
  readonly outbox?: Omit<OutboxOptions, "logger" | "schema">;
  /** The database schema of the tables of inbox and outbox. */
  readonly schema?: string;
  readonly dispatch?: Pick<
    DispatcherOptions<QueueMessage>,
    | "concurrency"
    | "timeoutMs"
    | "batchSize"
    | "leaseMs"
    | "retry"
    | "reserveMs"
    | "settleTimeoutMs"
    | "expectedHandlerMs"
  >;
  readonly webhooks?: Pick<
    WebhookRouteOptions,
    | "maxBodyBytes"
    | "toleranceMs"
    | "receiveMs"
    | "secretsMaxAgeMs"
    | "publicUrl"
    | "trustForwardedHeaders"
    | "sharedTopics"
    | "wrongTokenMs"
    | "fetchText"
  >;
  /** The inbox as an HTTP service at `/v1/inbox`, for consumers in any language. */
  readonly service?: AppService;
  /** The diagnostics API and the admin page at `/_oncebox`, for the people who run the app. */
  readonly admin?: AppAdmin;
  /** For a host that has a cron and no queue: a request for `/dispatch` runs the jobs. */
  readonly cron?: AppCron;
  /** How long done messages are kept. 30 days by default. */
  readonly retentionMs?: number;
  /**
   * Other retentions for some of the messages: `[{ topic: "debug.*", retentionMs: 3_600_000 }]`. The first that fits a message decides. A
   * source whose signed deliveries are accepted for longer is refused.
   */
  readonly retentions?: readonly AppRetention[];
  /**
   * How long dead messages are kept after their death: a day at least. Without it they are kept until somebody replays, discards or archives
   * them. `ONCEBOX_DEAD_RETENTION_DAYS` overrides it.
   */
  readonly deadRetentionMs?: number;
  /** How long the records of operators' operations are kept after their end. 90 days by default. */
  readonly operationRetentionMs?: number;
  /** Writes lines of JSON to the standard output by default. `false` writes nothing. */
  readonly logger?: LoggerOption;
  readonly metrics?: Metrics;
  readonly tracing?: Tracing;
}

/** How long some messages of an app are kept. */
export interface AppRetention extends Retention {
  /** Only those of one queue. */
  readonly queue?: QueueKind | undefined;
}

/** Checks and returns the definition of an app. */
type Define<Kind extends AnyDatabase> = <
  Topics extends TopicSchemas = TopicSchemas,
  Own = NoOwnSchemas<Topics>,
  Made = unknown,
  OwnSent = NoOwnSchemas<Topics>,
  MadeSent = unknown,
  Source extends string = string,
>(
  app: AppOptions<Topics, Kind, Own, Made, OwnSent, MadeSent> & {
    readonly sources?: SchemesOf<Source, AppSource>;
  } & InItsForm<"handlers", Made, MakeHandlers<InboxMessage, Topics, Kind, Own, Made>> &
    InItsForm<"publishers", MadeSent, MakeHandlers<OutboxMessage, Topics, Kind, OwnSent, MadeSent>>,
) => AppDefinition<Topics, Kind>;

interface DefineApp extends Define<AnyDatabase> {
  /** An app on PostgreSQL: `tx.native` is pg's `PoolClient`. A URL of another database is refused. */
  readonly postgres: Define<"postgres">;
  /** An app on SQL Server: `tx.native` is mssql's `Transaction`. A URL of another database is refused. */
  readonly sqlserver: Define<"sqlserver">;
  /** An app on SQLite: `tx.native` is node:sqlite's `DatabaseSync`. A URL of another database is refused. */
  readonly sqlite: Define<"sqlite">;
}

const defineOn =
  <Kind extends DatabaseKind>(databaseKind: Kind): Define<Kind> =>
  (app) =>
    defined<Kind, never>({ ...app, databaseKind } as never);

function defined<Kind extends AnyDatabase, Topics extends TopicSchemas>(
  app: object,
): AppDefinition<Topics, Kind> {
  checkDefinition(app);
  return app as AppDefinition<Topics, Kind>;
}

/**
 * Checks and returns the definition of an app. Opens nothing. `defineApp.postgres`, `defineApp.sqlserver` and `defineApp.sqlite` are for
 * apps on one kind of database: they type `tx.native`, the driver's own client.
 *
 * @example
 * export default defineApp({
 *   sources: { stripe: { secrets: env("STRIPE_WEBHOOK_SECRET") } },
 *   topics: { "receipt.send": z.object({ invoice: z.string() }) },
 *   handlers: {
 *     "stripe.invoice.paid": ({ messageId }) => ({ topic: "receipt.send", data: { invoice: messageId } }),
 *   },
 *   publishers: { "receipt.send": ({ data }) => console.log("sending", data.invoice) },
 * });
 */
export const defineApp: DefineApp = Object.assign(((app) => defined(app)) as Define<AnyDatabase>, {
  postgres: defineOn("postgres"),
  sqlserver: defineOn("sqlserver"),
  sqlite: defineOn("sqlite"),
});

/** Returns the database, unless the app is for another kind: its handlers would get another `tx.native` than they are written for. */
export function requireKind<Of extends ReceivingDatabase>({ databaseKind }: AppDefinition, db: Of): Of {
  if (databaseKind === undefined || db.dialect.name === databaseKind) return db;
  const given = `${db.dialect.name} (${db.id})`;
  throw new InvalidArgumentError(
    `The app is for ${databaseKind}: defineApp.${databaseKind}. Its database is ${given}. Give the URL of a ${databaseKind} database, or use defineApp.`,
  );
}

/** The service of an app. Only types here: the bundle of a function that does not serve it holds no code of it. */
export interface AppService extends InboxServiceSettings {
  /**
   * All bearer tokens that are valid at present, or references to where they are kept. A text may hold several, with commas or
   * white space between them. An environment variable may also hold a reference, as JSON.
   */
  readonly tokens?: SecretOrReference | readonly SecretOrReference[];
  /** Opens another store than the app's own database: Redis, for example. */
  readonly store?: (host: { readonly logger: Logger }) => LeasingInboxStore | Promise<LeasingInboxStore>;
  /** How long processed keys are kept in the app's database: 7 to 30 days. By default as long as Done messages, and at most 30 days. */
  readonly retentionMs?: number;
}

/** The diagnostics API of an app. Only types here: the bundle of a function that does not serve it holds no code of it. */
export interface AppAdmin extends AdminSettings {
  /**
   * All tokens that are valid at present, each `name:secret`, or references to where they are kept. A text may hold several,
   * with commas or white space between them. An environment variable may also hold a reference, as JSON.
   */
  readonly tokens: SecretOrReference | readonly SecretOrReference[];
}

/** The dispatch route of an app. */
export interface AppCron {
  /**
   * All bearer tokens that are valid at present, or references to where they are kept. A text may hold several, with commas
   * or white space between them. An environment variable may also hold a reference, as JSON.
   */
  readonly tokens: SecretOrReference | readonly SecretOrReference[];
  /** How long a call may take: a few seconds less than the host allows. 25 s by default. */
  readonly timeMs?: number;
}

/** Returns what is wrong with a value, or undefined. */
type Check = (value: unknown) => string | undefined;

const must =
  (isRight: (value: unknown) => boolean, what: string): Check =>
  (value) =>
    isRight(value) ? undefined : `must be ${what}`;

const isText = (value: unknown): boolean => typeof value === "string" && value !== "";
const isFunction = (value: unknown): boolean => typeof value === "function";
const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const hasFunction =
  (name: string) =>
  (value: unknown): boolean =>
    isFunction((value as Readonly<Record<string, unknown>> | null)?.[name]);

/** An object literal: neither a list nor an instance of a class. */
function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  if (!isObject(value)) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

const text = must(isText, "a non-empty string");
const options = must(isRecord, "an object");
const handlers = must(
  (value) => isFunction(value) || isRecord(value),
  "an object of functions by topic, or a function that returns one",
);

/** The rest is checked where it is served. */
const withTokens = must((value) => isRecord(value) && value.tokens !== undefined, "an object with tokens");

const topicsProblem: Check = (value) => {
  try {
    checkTopics(value, "topics");
    return undefined;
  } catch (error) {
    return `is wrong: ${(error as Error).message}`;
  }
};

const retentionsProblem: Check = (value) => {
  try {
    requireRetentions(value as readonly Retention[], "retentions", ["queue"]);
  } catch (error) {
    return `is wrong: ${(error as Error).message}`;
  }
  const queues: readonly unknown[] = [undefined, ...queueKinds];
  const isRight = (value as readonly AppRetention[]).every(({ queue }) => queues.includes(queue));
  return isRight ? undefined : `is wrong: queue must be one of ${queueKinds.join(", ")}.`;
};

const aboveZero = must((value) => Number.isFinite(value) && (value as number) > 0, "a number above 0");

const fields: Readonly<Record<keyof AppDefinition, Check>> = {
  databaseKind: must(
    (value) => ["postgres", "sqlserver", "sqlite"].includes(value as string),
    '"postgres", "sqlserver" or "sqlite"',
  ),
  topics: topicsProblem,
  database: must(
    (value) => isText(value) || isFunction(value) || isSecretReference(value),
    "a URL, a reference to a secret, or a function that opens a database",
  ),
  tenants: must(hasFunction("open"), "what multiTenant(…) of oncebox/tenants returns"),
  sources: must(
    (value) => isRecord(value) && Object.values(value).every(isRecord),
    "an object with an object for each source",
  ),
  handlers,
  ignore: must((value) => Array.isArray(value) && value.every(isText), "a list of topics"),
  onUnhandled: must(
    (value) => (onUnhandledChoices as readonly unknown[]).includes(value),
    `one of ${onUnhandledChoices.join(", ")}`,
  ),
  publishers: handlers,
  consumer: must(
    (value) =>
      isObject(value) &&
      isText(value.subscriber) &&
      isFunction(value.handle) &&
      Object.keys(value).length === 2,
    "{ subscriber, handle }: a non-empty string and a function",
  ),
  inbox: options,
  outbox: options,
  schema: text,
  dispatch: options,
  webhooks: options,
  service: must(isRecord, 'an object with tokens, or with auth: "none"'),
  admin: withTokens,
  cron: withTokens,
  retentionMs: must((value) => typeof value === "number" && value > 0, "a number above 0, or Infinity"),
  retentions: retentionsProblem,
  deadRetentionMs: must(isDeadRetention, deadRetentionRule),
  operationRetentionMs: aboveZero,
  logger: must(
    (value) => loggerProblem(value) === undefined,
    "a logger with debug, info, warn and error, or false",
  ),
  metrics: must((value) => typeof value === "object" && value !== null, "an object"),
  tracing: must(hasFunction("start"), "what openTelemetry() of oncebox/telemetry returns"),
};

/** Throws one error with all problems. Written by hand: it runs in every cold start, and `defineApp` cannot wait for zod. */
function checkDefinition(app: unknown): void {
  if (!isObject(app)) throw new InvalidArgumentError("defineApp: the definition must be an object.");
  const problems = Object.entries(fields).flatMap(([name, check]) => {
    const problem = app[name] === undefined ? undefined : check(app[name]);
    return problem === undefined ? [] : [`${name} ${problem}`];
  });
  const unknown = Object.keys(app).filter((name) => !Object.hasOwn(fields, name));
  if (unknown.length > 0)
    problems.push(`unknown: ${unknown.join(", ")}. Known: ${Object.keys(fields).join(", ")}`);
  if (app.database !== undefined && app.tenants !== undefined)
    problems.push("database and tenants both define where messages are stored; give one of them");
  if (app.consumer !== undefined && app.tenants !== undefined)
    problems.push("a consumer needs the app's one database, and an app with tenants has none");
  if (isRecord(app.sources) && !(isRecord(app.webhooks) && app.webhooks.sharedTopics === true))
    problems.push(...sharedNames(app.sources as Readonly<Record<string, AppSource>>));
  if (isRecord(app.sources)) problems.push(...retentionProblems(app as never));
  if (isRecord(app.topics)) problems.push(...topicProblems(app, Object.keys(app.topics)));
  if (isRecord(app.service)) problems.push(...serviceProblems(app, app.service));
  if (problems.length > 0) throw new InvalidArgumentError(`defineApp: ${problems.join("; ")}.`);
}

/** Of sources whose schemes are at hand. A preset that is named is loaded, and checked, when the app starts. */
const retentionProblems = (app: AppDefinition): readonly string[] =>
  Object.entries(app.sources ?? {}).flatMap(([name, source]) => {
    const scheme = source?.scheme; // a wrong source has been reported
    const kept = { toleranceMs: app.webhooks?.toleranceMs, retentionMs: shortestRetentionMs(app, name) };
    const problem = isObject(scheme) ? retentionProblem(source, scheme as WebhookScheme, kept) : undefined;
    return problem === undefined ? [] : `${name}: ${problem}`;
  });

/** A misspelt topic would be acknowledged without a handler, or retried without a publisher. Handlers that a function makes come later. */
function topicProblems(
  { sources = {}, handlers, ignore = [], publishers }: Readonly<Record<string, unknown>>,
  topics: readonly string[],
): readonly string[] {
  const problems: string[] = [];
  if (isRecord(handlers) && isRecord(sources)) {
    const patterns = [...Object.keys(handlers), ...(Array.isArray(ignore) ? ignore : [])];
    const isHandled = topicMatcher(new Map(patterns.map((pattern) => [String(pattern), true])));
    const received = topics.filter((topic) =>
      Object.keys(sources).some((name) => topic.startsWith(`${name}.`)),
    );
    for (const topic of received.filter((one) => !isHandled(one)))
      problems.push(`topics has "${topic}", and no handler is for it: ${Object.keys(handlers).join(", ")}`);
  }
  if (isRecord(publishers))
    for (const topic of Object.keys(publishers))
      if (!topic.includes("*") && !topics.includes(topic))
        problems.push(`publishers has "${topic}", which is none of topics: ${topics.join(", ")}`);
  return problems;
}

/** The rest of the service's options is checked where the service is made. */
function serviceProblems(
  { tenants }: Readonly<Record<string, unknown>>,
  { store, tokens, auth }: Readonly<Record<string, unknown>>,
): readonly string[] {
  const problems: string[] = [];
  if ((tokens === undefined) === (auth === undefined))
    problems.push('service must have either tokens or auth: "none"');
  if (store === undefined && tenants !== undefined)
    problems.push("a service without a store needs the app's one database, and an app with tenants has none");
  return problems;
}
