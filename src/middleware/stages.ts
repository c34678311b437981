import { InvalidArgumentError } from "../errors.js";
import type { Database } from "../sql/dialect.js";

/** The kinds of middleware whose order matters, outermost first. */
const order = ["transaction", "inbox", "outbox"] as const;

export type Stage = (typeof order)[number];

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
  for (const stage of order) {
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
