import { InvalidArgumentError } from "../errors.js";
import { requireOrder, type StageMiddleware, type StoreMiddleware } from "./stages.js";
import { throwFailureResult } from "./throw-failure-result.js";
import type { TransactionMiddleware } from "./transaction-middleware.js";

/** Handles one message. With `outbox()`, the messages that it returns are sent. */
export type MessageHandler<Message> = (message: Message) => unknown;

/** Middleware of your own. It calls `next` to run the rest, or does not, to skip the handler. */
export type CustomMiddleware<Message> = (message: Message, next: () => Promise<unknown>) => Promise<unknown>;

/** `transaction(db)`, `inbox(…)`, `outbox(…)`, or a function of your own. */
export type Middleware<Message> = StageMiddleware | CustomMiddleware<Message>;

/** A handler with middleware around it. */
export interface ComposedHandler<Message> {
  (message: Message): Promise<unknown>;
  /** Creates or updates the tables of the inbox and outbox middleware. Call it when you deploy: nothing else here does. */
  init(): Promise<void>;
}

/**
 * Puts middleware around a handler, the first one outermost. It throws when the order is wrong, before any message
 * arrives.
 *
 * @example
 * const handle = compose([transaction(db), inbox({ subscriber: "orders" }), outbox()], async (message: InboxMessage) => {
 *   await currentTransaction()!.query(insertOrder, { id: message.messageId });
 *   return { topic: "order.placed", data: { id: message.messageId } };
 * });
 */
export function compose<Message>(
  middleware: readonly Middleware<Message>[],
  handler: MessageHandler<Message>,
): ComposedHandler<Message> {
  if (!Array.isArray(middleware))
    throw new InvalidArgumentError("compose: the first argument must be a list of middleware.");
  if (typeof handler !== "function")
    throw new InvalidArgumentError("compose: the second argument must be the handler.");
  const unknown = middleware.findIndex((entry) => typeof entry !== "function" && !isStage(entry));
  if (unknown >= 0) {
    throw new InvalidArgumentError(
      `compose: entry ${unknown + 1} of the list is not middleware. Use transaction(db), inbox(…), outbox(…) or a function (message, next) => ….`,
    );
  }
  const stages = middleware.filter(isStage);
  requireOrder(stages.map(({ stage }) => stage));

  const run = async (message: Message): Promise<unknown> => {
    const chain = middleware.reduceRight<() => Promise<unknown>>(
      (next, entry) => () => (typeof entry === "function" ? entry(message, next) : entry.run(message, next)),
      async () => throwFailureResult(await handler(message)),
    );
    return chain();
  };
  return Object.assign(run, {
    async init() {
      const transaction = stages.find(isTransaction);
      if (transaction === undefined) return;
      for (const entry of stages.filter(hasStore)) await entry.deploy(transaction.db);
    },
  });
}

const isStage = (entry: unknown): entry is StageMiddleware =>
  typeof (entry as StageMiddleware)?.run === "function";

const isTransaction = (entry: StageMiddleware): entry is TransactionMiddleware => "db" in entry;

const hasStore = (entry: StageMiddleware): entry is StoreMiddleware => "deploy" in entry;
