import { guardedLogger, type Logger, silentLogger } from "../base/logger.js";
import { InvalidArgumentError, InvalidOperationError } from "../errors.js";
import { createInbox, type InboxOptions } from "../inbox/inbox.js";
import { refuseUnknown, requireName } from "../queue/arguments.js";
import type { Database } from "../sql/dialect.js";
import type { StoreMiddleware } from "./compose.js";
import { currentScope, type TransactionScope } from "./current-transaction.js";

export interface InboxMiddlewareOptions<Message = never>
  extends Pick<InboxOptions, "schema" | "table" | "clock"> {
  /** Who consumes: each subscriber handles a message once. */
  readonly subscriber: string;
  /** Where the message's id is; its `messageId` by default. */
  readonly messageId?: (message: Message) => string | null | undefined;
  readonly logger?: Logger;
}

export interface InboxMiddleware extends StoreMiddleware {
  readonly stage: "inbox";
  readonly subscriber: string;
  /** Whether the message is new to the subscriber; recorded in the scope's transaction. */
  isNew(scope: TransactionScope, message: unknown): Promise<boolean>;
}

const known = ["subscriber", "messageId", "schema", "table", "clock", "logger"];

/**
 * Records (subscriber, messageId) in the handler's transaction. A duplicate skips the handler and is a success without
 * output, so that the trigger acknowledges it.
 *
 * @example
 * compose([transaction(db), inbox({ subscriber: "order-service" })], handler)
 */
export function inbox<Message = { readonly messageId?: string | undefined }>(
  options: InboxMiddlewareOptions<Message>,
): InboxMiddleware {
  refuseUnknown(options ?? {}, known, "inbox middleware");
  requireName(options?.subscriber, "inbox middleware: subscriber");
  const { subscriber, messageId, schema, table, clock } = options;
  if (messageId !== undefined && typeof messageId !== "function")
    throw new InvalidArgumentError("inbox middleware: messageId must be a function (message) => id.");
  const logger = guardedLogger(options.logger ?? silentLogger);
  const settings: InboxOptions = {
    ...(schema === undefined ? {} : { schema }),
    ...(table === undefined ? {} : { table }),
    ...(clock === undefined ? {} : { clock }),
  };
  const storeOn = perDatabase((db) => createInbox(db, settings));
  const idOf = (messageId ?? plainId) as (message: unknown) => unknown;

  const isNew = async (scope: TransactionScope, message: unknown): Promise<boolean> => {
    const id = idOf(message);
    if (id === undefined || id === null || id === "") throw withoutId();
    requireName(id, "messageId");
    const fresh = await storeOn(scope.db).markProcessed(
      { source: subscriber, messageId: id },
      { tx: scope.tx },
    );
    if (!fresh) logger.info("duplicate", { subscriber, messageId: id });
    return fresh;
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

const plainId = (message: unknown): unknown =>
  (message as { messageId?: unknown } | null | undefined)?.messageId;

const withoutId = () =>
  new InvalidArgumentError(
    "inbox middleware: the message has no messageId. Give it one, or say where it is: inbox({ messageId: (message) => … }).",
  );

export function requireScope(stage: "inbox" | "outbox"): TransactionScope {
  const scope = currentScope();
  if (scope !== undefined) return scope;
  throw new InvalidOperationError(
    `${stage} middleware: there is no transaction around it. Add transaction(db) before ${stage}(…).`,
  );
}

/** A store for each database that the stack meets; nearly always there is one. */
export function perDatabase<Store>(make: (db: Database) => Store): (db: Database) => Store {
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
