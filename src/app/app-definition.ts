import * as z from "zod/mini";
import type { Logger } from "../base/logger.js";
import type { Metrics } from "../base/metrics.js";
import { checked } from "../config/problems.js";
import { type SecretReference, secretReference } from "../config/secret-reference.js";
import type { DispatcherOptions } from "../dispatch/dispatcher.js";
import type { Handlers } from "../dispatch/handlers.js";
import { InvalidArgumentError } from "../errors.js";
import type { Inbox, InboxOptions } from "../inbox/inbox.js";
import type { TriggerMessage } from "../middleware/trigger-message.js";
import type { Outbox, OutboxOptions } from "../outbox/outbox.js";
import type { InboxMessage, OutboxMessage, QueueMessage } from "../queue/message.js";
import type { Database } from "../sql/dialect.js";
import type { SqlExecutor } from "../sql/driver.js";
import type { WebhookRouteOptions } from "../webhooks/route-options.js";
import type { AppSource } from "./app-sources.js";
import type { AppTenants } from "./app-tenants.js";
import { isPlainlyRight, isRecord, isRecordOfRecords } from "./plain-definition.js";

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

/** Made when it is needed: for most definitions it is not. */
export function definitionSchema() {
  const anyFunction = z.custom<(...args: never[]) => unknown>(
    (value) => typeof value === "function",
    "must be a function",
  );
  const options = z.custom<object>(isRecord, "must be an object");
  const handlers = z.union(
    [anyFunction, options],
    "must be an object of functions by topic, or a function that answers one",
  );

  return z.strictObject({
    database: z.optional(
      z.union(
        [z.string().check(z.minLength(1)), secretReference(), anyFunction],
        "must be a URL, a reference to a secret, or a function that opens a database",
      ),
    ),
    tenants: z.optional(
      z.custom<AppTenants>(
        (value) => typeof (value as AppTenants | null)?.open === "function",
        "must be what multiTenant(…) of oncebox/tenants answers",
      ),
    ),
    sources: z.optional(z.custom(isRecordOfRecords, "must be an object with an object for each source")),
    handlers: z.optional(handlers),
    publishers: z.optional(handlers),
    consumer: z.optional(
      z.strictObject({ subscriber: z.string().check(z.minLength(1)), handle: anyFunction }),
    ),
    inbox: z.optional(options),
    outbox: z.optional(options),
    schema: z.optional(z.string().check(z.minLength(1))),
    dispatch: z.optional(options),
    webhooks: z.optional(options),
    retentionMs: z.optional(
      z.custom<number>(
        (value) => Number.isFinite(value) && (value as number) > 0,
        "must be a number above 0",
      ),
    ),
    logger: z.optional(
      z.custom<Logger>(
        (value) => typeof (value as Logger)?.info === "function",
        "must have debug, info, warn and error",
      ),
    ),
    metrics: z.optional(
      z.custom<Metrics>((value) => typeof value === "object" && value !== null, "must be an object"),
    ),
  });
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
  if (!isPlainlyRight(app)) checked(definitionSchema(), app, "defineApp");
  if (app.database !== undefined && app.tenants !== undefined) {
    throw new InvalidArgumentError(
      "defineApp: database and tenants both say where messages are. Say one of them.",
    );
  }
  if (app.consumer !== undefined && app.tenants !== undefined) {
    throw new InvalidArgumentError(
      "defineApp: a consumer's messages are noted in the one database, and an app with tenants has none.",
    );
  }
  return app;
}
