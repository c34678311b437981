import { InvalidArgumentError } from "../errors.js";
import type { Database } from "../sql/dialect.js";
import { type TransactionMiddleware, throwFailureResult } from "./transaction.js";

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

/** The kinds of middleware whose order matters, outermost first. */
const stageOrder = ["transaction", "inbox", "outbox"] as const;

export type Stage = (typeof stageOrder)[number];

/** Middleware of this package. Its stage decides where it may stand. */
export interface StageMiddleware {
  readonly stage: Stage;
  run(message: unknown, next: () => Promise<unknown>): Promise<unknown>;
}

/** Middleware that needs a table. */
export interface StoreMiddleware extends StageMiddleware {
  readonly stage: "inbox" | "outbox";
  /** Creates or updates its table on that database. */
  deploy(db: Database): Promise<void>;
}

/** Throws one error that lists every mistake: the order is transaction, inbox, outbox, each at most once. */
export function requireOrder(stages: readonly Stage[]): void {
  const problems: string[] = [];
  for (const stage of stageOrder) {
    if (stages.filter((other) => other === stage).length > 1)
      problems.push(`${stage} is there twice: remove one`);
  }
  const transactionAt = stages.indexOf("transaction");
  for (const stage of ["inbox", "outbox"] as const) {
    const at = stages.indexOf(stage);
    if (at < 0) continue;
    if (transactionAt < 0) problems.push(`${stage} needs a transaction: add transaction(db) before it`);
    if (transactionAt > at)
      problems.push(`${stage} comes before transaction: move transaction(db) to the front`);
  }
  const [inboxAt, outboxAt] = [stages.indexOf("inbox"), stages.indexOf("outbox")];
  if (outboxAt >= 0 && outboxAt < inboxAt)
    problems.push("outbox comes before inbox: put inbox(…) first, so that a duplicate skips the outbox");
  if (problems.length === 0) return;
  throw new InvalidArgumentError(`The middleware is in the wrong order: ${problems.join("; ")}.`);
}
