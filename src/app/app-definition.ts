import type { LoggerOption } from "../base/logger.js";
import type { Metrics } from "../base/metrics.js";
import type { Tracing } from "../base/tracing.js";
import type { SecretReference } from "../config/secret-reference.js";
import type { DispatcherOptions } from "../dispatch/dispatcher-options.js";
import type { Handlers } from "../dispatch/handlers.js";
import type { TopicPattern } from "../dispatch/topic-patterns.js";
import type { Otherwise } from "../dispatch/topic-plans.js";
import type { Inbox, InboxOptions } from "../inbox/inbox.js";
import type { TriggerMessage } from "../middleware/trigger-message.js";
import type { Outbox, OutboxOptions } from "../outbox/outbox.js";
import type { InboxMessage, OutboxMessage, QueueMessage } from "../queue/message.js";
import type { Database } from "../sql/dialect.js";
import type { SqlExecutor } from "../sql/driver.js";
import type { WebhookRouteOptions } from "../webhooks/route-options.js";
import type { AppAdmin } from "./app-admin.js";
import type { AppService } from "./app-service.js";
import type { AppSource } from "./app-sources.js";
import type { AppTenants } from "./app-tenants.js";
import { checkDefinition } from "./check-definition.js";

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
  readonly otherwise?: Otherwise;
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
