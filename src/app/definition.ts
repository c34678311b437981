import { type Logger, type LoggerOption, loggerProblem } from "../base/logger.js";
import type { Metrics, Tracing } from "../base/telemetry.js";
import { isSecretReference, type SecretReference } from "../config/secret-reference.js";
import type { DispatcherOptions } from "../dispatch/dispatcher.js";
import type { Handlers, OnUnhandled, TopicPattern } from "../dispatch/handlers.js";
import { InvalidArgumentError } from "../errors.js";
import type { AdminSettings } from "../http/admin-access.js";
import type { Inbox, InboxOptions } from "../inbox/inbox.js";
import type { TriggerMessage } from "../middleware/consume.js";
import type { Outbox, OutboxOptions } from "../outbox/outbox.js";
import { deadRetentionRule, isDeadRetention } from "../queue/maintenance.js";
import type { InboxMessage, OutboxMessage, QueueMessage } from "../queue/message.js";
import type { InboxServiceSettings } from "../service/http/inbox-service.js";
import type { LeasingInboxStore } from "../service/inbox-store.js";
import type { Database } from "../sql/dialect.js";
import type { SqlExecutor } from "../sql/driver.js";
import type { WebhookRouteOptions } from "../webhooks/route-options.js";
import type { AppTenants } from "./multi-tenant.js";
import type { AppSource, SecretOrReference } from "./sources.js";

/** Passed to a function that returns handlers. */
export interface AppParts {
  readonly db: Database;
  readonly inbox: Inbox;
  readonly outbox: Outbox;
}

type HandlersOf<Message extends QueueMessage> =
  | Handlers<Message, SqlExecutor>
  | ((parts: AppParts) => Handlers<Message, SqlExecutor>);

/** Everything about an app that does not depend on the platform. It is the default export of one file. */
export interface AppDefinition {
  /** A URL, a reference to where the URL is kept, or a function that opens the database. `ONCEBOX_DATABASE_URL` overrides it. */
  readonly database?: string | SecretReference | (() => Database | Promise<Database>);
  /** Many databases instead of one, discovered at run time: `multiTenant(…)` of `oncebox/app`. */
  readonly tenants?: AppTenants;
  /** The senders of webhooks, by the last part of the path. `ONCEBOX_WEBHOOKS` adds sources and overrides those of the same name. */
  readonly sources?: Readonly<Record<string, AppSource>>;
  /** Handlers of inbox messages, by topic. */
  readonly handlers?: HandlersOf<InboxMessage>;
  /** Topics of inbox messages that are acknowledged without a handler: a provider sends more than an app needs. */
  readonly ignore?: readonly TopicPattern[];
  /** What becomes of an inbox message without a handler: `"retry"` by default, or `"ack"` or `"dead"`. */
  readonly onUnhandled?: OnUnhandled;
  /** Handlers of outbox messages, by topic. Without any this app does not dispatch its outbox. */
  readonly publishers?: HandlersOf<OutboxMessage>;
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
    | "fetchText"
  >;
  /** The inbox as an HTTP service at `/v1/inbox`, for consumers in any language. */
  readonly service?: AppService;
  /** The diagnostics API and the admin page at `/_oncebox`, for the people who run the app. */
  readonly admin?: AppAdmin;
  /** How long done messages are kept. 30 days by default. */
  readonly retentionMs?: number;
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

/**
 * Checks and returns the definition of an app. Opens nothing.
 *
 * @example
 * export default defineApp({
 *   sources: { stripe: { scheme: "stripe", secrets: { from: "env", name: "STRIPE_SECRET" } } },
 *   handlers: ({ outbox }) => ({
 *     "invoice.paid": (message) => outbox.enqueue({ topic: "receipt.send", payload: message.payload }),
 *   }),
 * });
 */
export function defineApp(app: AppDefinition): AppDefinition {
  checkDefinition(app);
  return app;
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

const aboveZero = must((value) => Number.isFinite(value) && (value as number) > 0, "a number above 0");

const fields: Readonly<Record<keyof AppDefinition, Check>> = {
  database: must(
    (value) => isText(value) || isFunction(value) || isSecretReference(value),
    "a URL, a reference to a secret, or a function that opens a database",
  ),
  tenants: must(hasFunction("open"), "what multiTenant(…) of oncebox/app returns"),
  sources: must(
    (value) => isRecord(value) && Object.values(value).every(isRecord),
    "an object with an object for each source",
  ),
  handlers,
  ignore: must((value) => Array.isArray(value) && value.every(isText), "a list of topics"),
  onUnhandled: must(
    (value) => ["ack", "dead", "retry"].includes(value as string),
    '"ack", "dead" or "retry"',
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
  admin: must((value) => isRecord(value) && value.tokens !== undefined, "an object with tokens"),
  retentionMs: aboveZero,
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
  if (isRecord(app.service)) problems.push(...serviceProblems(app, app.service));
  if (problems.length > 0) throw new InvalidArgumentError(`defineApp: ${problems.join("; ")}.`);
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
