import { PermanentFailure, RetryAfter } from "../dispatch/settlement.js";
import { InvalidArgumentError } from "../errors.js";
import type { TransactionMiddleware } from "./transaction-middleware.js";

/** Handles a message. What it returns is its output: with `outbox()`, messages to send. */
export type MessageHandler<Message> = (message: Message) => unknown;

/** Your own middleware: call `next` to go on, or not to skip the handler. */
export type CustomMiddleware<Message> = (message: Message, next: () => Promise<unknown>) => Promise<unknown>;

export type Stage = "transaction" | "inbox" | "outbox";

/** One of this package's middleware; the stage is what the order is checked by. */
export interface StageMiddleware {
  readonly stage: Stage;
  run(message: unknown, next: () => Promise<unknown>): Promise<unknown>;
}

/** One that keeps something in a table. */
export interface StoreMiddleware extends StageMiddleware {
  readonly stage: "inbox" | "outbox";
  /** Creates or updates its table on that database. */
  deploy(db: TransactionMiddleware["db"]): Promise<void>;
}

export type Middleware<Message> =
  | TransactionMiddleware
  | StoreMiddleware
  | StageMiddleware
  | CustomMiddleware<Message>;

export interface ComposedHandler<Message> {
  (message: Message): Promise<unknown>;
  /** Creates or updates the tables of the stack's inbox and outbox. Nothing else here does; call it when you deploy. */
  init(): Promise<void>;
}

/**
 * A handler with middleware around it, the first outermost. A wrong order is refused here, not at the first message.
 *
 * @example
 * const handle = compose([transaction(db), inbox({ subscriber: "orders" }), outbox()], async (message) => {
 *   await currentTransaction()!.query(insertOrder, { id: message.messageId });
 *   return { topic: "order.placed", data: { id: message.messageId } };
 * });
 */
export function compose<Message>(
  middleware: readonly Middleware<Message>[],
  handler: MessageHandler<Message>,
): ComposedHandler<Message> {
  if (!Array.isArray(middleware)) throw new InvalidArgumentError("compose takes a list of middleware first.");
  if (typeof handler !== "function") throw new InvalidArgumentError("compose takes the handler last.");
  const unknown = middleware.findIndex((entry) => typeof entry !== "function" && !isStage(entry));
  if (unknown >= 0) {
    throw new InvalidArgumentError(
      `compose: middleware ${unknown + 1} is none: give transaction(db), inbox(…), outbox(…) or a function (message, next) => ….`,
    );
  }
  const stages = middleware.filter(isStage);
  requireOrder(stages.map(({ stage }) => stage));

  const run = async (message: Message): Promise<unknown> => {
    const chain = middleware.reduceRight<() => Promise<unknown>>(
      (next, entry) => () => (typeof entry === "function" ? entry(message, next) : entry.run(message, next)),
      async () => thrownIfSteering(await handler(message)),
    );
    return chain();
  };
  return Object.assign(run, {
    async init() {
      const outermost = stages.find((entry): entry is TransactionMiddleware => "db" in entry);
      if (outermost === undefined) return;
      for (const entry of stages.filter(hasStore)) await entry.deploy(outermost.db);
    },
  });
}

/** A dispatcher's handlers may also return these; committed as an output, they would be taken for a success. */
function thrownIfSteering(output: unknown): unknown {
  if (output instanceof PermanentFailure || output instanceof RetryAfter) throw output;
  return output;
}

const isStage = (entry: unknown): entry is StageMiddleware =>
  typeof (entry as StageMiddleware)?.run === "function";

const hasStore = (entry: StageMiddleware): entry is StoreMiddleware => "deploy" in entry;

const order: readonly Stage[] = ["transaction", "inbox", "outbox"];

/** All that is wrong with an order, in one error: transaction, then inbox, then outbox, each at most once. */
export function requireOrder(stages: readonly Stage[]): void {
  const problems: string[] = [];
  for (const stage of order) {
    if (stages.filter((other) => other === stage).length > 1) problems.push(`${stage} is there twice`);
  }
  for (const stage of ["inbox", "outbox"] as const) {
    const at = stages.indexOf(stage);
    const outer = stages.indexOf("transaction");
    if (at >= 0 && outer < 0) problems.push(`${stage} needs a transaction: add transaction(db) before it`);
    if (at >= 0 && outer > at)
      problems.push(`${stage} comes before transaction: move transaction(db) to the front`);
  }
  const [inboxAt, outboxAt] = [stages.indexOf("inbox"), stages.indexOf("outbox")];
  if (inboxAt >= 0 && outboxAt >= 0 && outboxAt < inboxAt)
    problems.push(
      "outbox comes before inbox: put inbox(…) first, so that a duplicate never gets to the outbox",
    );
  if (problems.length === 0) return;
  throw new InvalidArgumentError(`The middleware is in the wrong order: ${problems.join("; ")}.`);
}
