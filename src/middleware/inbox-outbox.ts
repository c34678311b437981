import { omitUndefined } from "../base/defined.js";
import { type LoggerOption, loggerOf } from "../base/logger.js";
import type { ReturnedMessage } from "../dispatch/handlers.js";
import { outgoingMessages } from "../dispatch/returned-messages.js";
import { InvalidArgumentError } from "../errors.js";
import { createInbox, type InboxOptions } from "../inbox/inbox.js";
import { createOutbox, type OutboxOptions } from "../outbox/outbox.js";
import { refuseUnknown, requireName } from "../queue/arguments.js";
import type { Database } from "../sql/dialect.js";
import { asTransaction } from "../sql/driver.js";
import type { StoreMiddleware } from "./compose.js";
import { requireScope, type TransactionScope } from "./transaction.js";

/** Options of the inbox middleware. */
export interface InboxMiddlewareOptions<Message = never>
  extends Pick<InboxOptions, "schema" | "table" | "clock"> {
  /** The consumer's name. Each subscriber handles a message once. */
  readonly subscriber: string;
  /** Returns the message's id; `message.messageId` by default. */
  readonly messageId?: (message: Message) => string | null | undefined;
  readonly logger?: LoggerOption;
}

/** Middleware that handles each message once. */
export interface InboxMiddleware extends StoreMiddleware {
  readonly stage: "inbox";
  readonly subscriber: string;
  /** Records the message in the scope's transaction. Returns whether it is new to the subscriber. */
  isNew(scope: TransactionScope, message: unknown): Promise<boolean>;
}

const inboxOptionNames = ["subscriber", "messageId", "schema", "table", "clock", "logger"];

/**
 * Records (subscriber, messageId) in the handler's transaction. A duplicate skips the handler and succeeds without
 * output, so the trigger acknowledges it.
 *
 * @example
 * compose([transaction(db), inbox({ subscriber: "order-service" })], handler)
 */
export function inbox<Message = { readonly messageId?: string | undefined }>(
  options: InboxMiddlewareOptions<Message>,
): InboxMiddleware {
  refuseUnknown(options ?? {}, inboxOptionNames, "inbox middleware");
  requireName(options?.subscriber, "inbox middleware: subscriber");
  const { subscriber, messageId, schema, table, clock } = options;
  if (messageId !== undefined && typeof messageId !== "function")
    throw new InvalidArgumentError("inbox middleware: messageId must be a function (message) => id.");
  const logger = loggerOf(options.logger);
  const settings: InboxOptions = omitUndefined({ schema, table, clock, logger: options.logger });
  const storeOn = perDatabase((db) => createInbox(db, settings));
  const idOf = (messageId ?? ownMessageId) as (message: unknown) => unknown;

  const isNew = async ({ db, tx }: TransactionScope, message: unknown): Promise<boolean> => {
    const id = idOf(message);
    if (id === undefined || id === null || id === "")
      throw new InvalidArgumentError(
        "inbox middleware: the message has no messageId. Add one, or say where the id is: inbox({ messageId: (message) => … }).",
      );
    requireName(id, "messageId");
    const isMarked = await storeOn(db).markProcessed({ source: subscriber, messageId: id }, { tx });
    if (!isMarked) logger.info("duplicate", { subscriber, messageId: id });
    return isMarked;
  };

  return {
    stage: "inbox",
    subscriber,
    isNew,
    async run(message, next) {
      return (await isNew(requireScope("inbox"), message)) ? next() : undefined;
    },
    deploy: (db) => createInbox(db, { ...settings, enableSchemaDeployment: true }).init(),
  };
}

const ownMessageId = (message: unknown): unknown =>
  (message as { messageId?: unknown } | null | undefined)?.messageId;

/** Options of the outbox middleware. */
export interface OutboxMiddlewareOptions
  extends Pick<OutboxOptions, "schema" | "table" | "logger" | "metrics" | "tracing" | "clock"> {
  /** The topic of messages that have none. */
  readonly topic?: string;
}

/** Middleware that stores what the function returns in the outbox. */
export interface OutboxMiddleware extends StoreMiddleware {
  readonly stage: "outbox";
  /** Enables `publish` in the scope. */
  collect(scope: TransactionScope): void;
  /**
   * Writes published messages and the handler's output into the outbox, in one statement. On a driver that pipelines it
   * resolves before the database has responded, so that the commit is sent with the insert.
   */
  write(scope: TransactionScope, output: unknown): Promise<void>;
}

const outboxOptionNames = ["topic", "schema", "table", "logger", "metrics", "tracing", "clock"];

/**
 * Writes the messages that the handler returns into the outbox, in the handler's transaction. The composed handler then
 * returns nothing.
 *
 * @example
 * compose([transaction(db), inbox({ subscriber: "orders" }), outbox({ topic: "order-events" })], handler)
 */
export function outbox(options: OutboxMiddlewareOptions = {}): OutboxMiddleware {
  refuseUnknown(options, outboxOptionNames, "outbox middleware");
  const { topic, ...settings } = options;
  if (topic !== undefined) requireName(topic, "outbox middleware: topic");
  const storeOn = perDatabase((db) => createOutbox(db, settings));

  const collect = (scope: TransactionScope): void => {
    scope.outgoing = [];
  };
  const write = async (scope: TransactionScope, output: unknown): Promise<void> => {
    const messages = [...(scope.outgoing ?? []), ...outgoingMessages(output, topic)];
    scope.outgoing = undefined;
    if (messages.length === 0) return;
    const store = storeOn(scope.db);
    let isSent = false;
    const tx = asTransaction({
      query(...call) {
        isSent = true;
        return scope.tx.query(...call);
      },
    });
    const written =
      messages.length === 1 ? store.enqueue(messages[0]!, { tx }) : store.enqueue(messages, { tx });
    if (isSent && scope.tx.pipelines) {
      written.catch(() => {}); // the transaction awaits and reports it
      scope.written = written;
    } else await written;
  };

  return {
    stage: "outbox",
    collect,
    write,
    async run(_message, next) {
      const scope = requireScope("outbox");
      collect(scope);
      await write(scope, await next());
      return undefined;
    },
    deploy: (db) => createOutbox(db, { ...settings, enableSchemaDeployment: true }).init(),
  };
}

/** A message that a handler returns. Its topic is that of the outbox middleware by default. */
export type HandlerOutput = WithoutTopic<ReturnedMessage> & { readonly topic?: string | undefined };

type WithoutTopic<Message> = Message extends unknown ? Omit<Message, "topic"> : never;

/** Makes one store per database, at first use. A middleware may be shared by handlers on several databases. */
function perDatabase<Store>(make: (db: Database) => Store): (db: Database) => Store {
  const stores = new WeakMap<Database, Store>();
  return (db) => {
    let store = stores.get(db);
    if (store === undefined) {
      store = make(db);
      stores.set(db, store);
    }
    return store;
  };
}
