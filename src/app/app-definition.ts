import type { Logger } from "../base/logger.js";
import type { Metrics } from "../base/metrics.js";
import type { SecretReference } from "../config/secret-reference.js";
import type { DispatcherOptions } from "../dispatch/dispatcher.js";
import type { Handlers } from "../dispatch/handlers.js";
import type { Inbox, InboxOptions } from "../inbox/inbox.js";
import type { TriggerMessage } from "../middleware/trigger-message.js";
import type { Outbox, OutboxOptions } from "../outbox/outbox.js";
import type { InboxMessage, OutboxMessage, QueueMessage } from "../queue/message.js";
import type { Database } from "../sql/dialect.js";
import type { SqlExecutor } from "../sql/driver.js";
import type { WebhookRouteOptions } from "../webhooks/route-options.js";
import type { AppSource } from "./app-sources.js";
import type { AppTenants } from "./app-tenants.js";
import { checkDefinition } from "./check-definition.js";

/** What handlers may need to do their work. */
export interface AppParts {
  readonly db: Database;
  readonly inbox: Inbox;
  readonly outbox: Outbox;
}

type HandlersOf<Message extends QueueMessage> =
  | Handlers<Message, SqlExecutor>
  | ((parts: AppParts) => Handlers<Message, SqlExecutor>);

/** Everything about an app that is not the platform's: one file of the user's. */
export interface AppDefinition {
  /** A URL, where the URL is kept, or a function that opens it. `ONCEBOX_DATABASE_URL` wins over it. */
  readonly database?: string | SecretReference | (() => Database | Promise<Database>);
  /** Many databases instead of one, found at run time: `multiTenant(…)` of `oncebox/tenants`. */
  readonly tenants?: AppTenants;
  /** Who may send webhooks, by the last part of their path. `ONCEBOX_WEBHOOKS` adds to them, and wins. */
  readonly sources?: Readonly<Record<string, AppSource>>;
  /** What is done with messages that came in, by topic. */
  readonly handlers?: HandlersOf<InboxMessage>;
  /** What is done with messages that go out, by topic. Without any, the outbox is left to others. */
  readonly publishers?: HandlersOf<OutboxMessage>;
  /**
   * What is done with messages of a queue that others fill, each in a transaction with the note that `subscriber` has
   * had it, and with the messages that `handle` returns, which go into the outbox. Needs the one database.
   */
  readonly consumer?: {
    readonly subscriber: string;
    readonly handle: (message: TriggerMessage) => unknown;
  };
  readonly inbox?: Omit<InboxOptions, "logger" | "schema">;
  readonly outbox?: Omit<OutboxOptions, "logger" | "schema">;
  /** The tables' schema, for both. */
  readonly schema?: string;
  readonly dispatch?: Pick<
    DispatcherOptions<QueueMessage>,
    "concurrency" | "batchSize" | "leaseMs" | "retry" | "reserveMs" | "expectedHandlerMs"
  >;
  readonly webhooks?: Pick<
    WebhookRouteOptions,
    "maxBodyBytes" | "toleranceMs" | "receiveMs" | "secretsMaxAgeMs" | "publicUrl" | "trustForwardedHeaders"
  >;
  /** How long Done messages are kept: 30 days by default. */
  readonly retentionMs?: number;
  /** Lines of JSON to the standard output by default. */
  readonly logger?: Logger;
  readonly metrics?: Metrics;
}

/**
 * Says what the app is; nothing is opened yet.
 *
 * @example
 * export default defineApp({
 *   sources: { stripe: { scheme: "stripe", secrets: { from: "env", name: "STRIPE_SECRET" } } },
 *   handlers: ({ outbox }) => ({
 *     "payment.received": (message) => outbox.enqueue({ topic: "receipt.send", payload: message.payload }),
 *   }),
 * });
 */
export function defineApp(app: AppDefinition): AppDefinition {
  checkDefinition(app);
  return app;
}
