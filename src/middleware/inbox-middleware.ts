import { defined } from "../base/defined.js";
import { type LoggerOption, loggerOf } from "../base/logger.js";
import { InvalidArgumentError } from "../errors.js";
import { createInbox, type InboxOptions } from "../inbox/inbox.js";
import { refuseUnknown, requireName } from "../queue/arguments.js";
import { requireScope, type TransactionScope } from "./current-transaction.js";
import { perDatabase } from "./per-database.js";
import type { StoreMiddleware } from "./stages.js";

export interface InboxMiddlewareOptions<Message = never>
  extends Pick<InboxOptions, "schema" | "table" | "clock"> {
  /** The consumer's name. Each subscriber handles a message once. */
  readonly subscriber: string;
  /** Returns the message's id; `message.messageId` by default. */
  readonly messageId?: (message: Message) => string | null | undefined;
  readonly logger?: LoggerOption;
}

export interface InboxMiddleware extends StoreMiddleware {
  readonly stage: "inbox";
  readonly subscriber: string;
  /** Records the message in the scope's transaction. Returns whether it is new to the subscriber. */
  isNew(scope: TransactionScope, message: unknown): Promise<boolean>;
}

const known = ["subscriber", "messageId", "schema", "table", "clock", "logger"];

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
  refuseUnknown(options ?? {}, known, "inbox middleware");
  requireName(options?.subscriber, "inbox middleware: subscriber");
  const { subscriber, messageId, schema, table, clock } = options;
  if (messageId !== undefined && typeof messageId !== "function")
    throw new InvalidArgumentError("inbox middleware: messageId must be a function (message) => id.");
  const logger = loggerOf(options.logger);
  const settings: InboxOptions = defined({ schema, table, clock });
  const storeOn = perDatabase((db) => createInbox(db, settings));
  const idOf = (messageId ?? ownMessageId) as (message: unknown) => unknown;

  const isNew = async (scope: TransactionScope, message: unknown): Promise<boolean> => {
    const id = idOf(message);
    if (id === undefined || id === null || id === "") throw withoutId();
    requireName(id, "messageId");
    const isNew = await storeOn(scope.db).markProcessed(
      { source: subscriber, messageId: id },
      { tx: scope.tx },
    );
    if (!isNew) logger.info("duplicate", { subscriber, messageId: id });
    return isNew;
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

const withoutId = () =>
  new InvalidArgumentError(
    "inbox middleware: the message has no messageId. Add one, or say where the id is: inbox({ messageId: (message) => … }).",
  );
