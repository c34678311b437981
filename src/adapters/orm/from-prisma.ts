import { InvalidArgumentError } from "../../errors.js";
import type { AdaptedTransaction, SqlRow } from "../../sql/driver.js";
import { executorOf, requireDialect } from "./executor.js";

/** The used part of the client in a Prisma interactive transaction. A client outside of one has `$transaction` too. */
export interface PrismaTransaction {
  $queryRawUnsafe(text: string, ...values: never[]): PromiseLike<unknown>;
}

const dialects: Readonly<Record<string, string>> = {
  postgresql: "postgres",
  postgres: "postgres",
  sqlite: "sqlite",
  sqlserver: "sqlserver",
};

/**
 * A Prisma interactive transaction of the caller's, on PostgreSQL, SQL Server or SQLite.
 *
 * @example
 * await prisma.$transaction(async (tx) => {
 *   await tx.order.create({ data: order });
 *   await outbox.enqueue({ topic: "order.created", payload }, { tx: fromPrisma(tx) });
 * });
 */
export function fromPrisma(tx: PrismaTransaction): AdaptedTransaction {
  const client = tx as PrismaTransaction & { $transaction?: unknown; _activeProvider?: string };
  if (typeof client?.$queryRawUnsafe !== "function" || client.$transaction !== undefined) {
    throw new InvalidArgumentError(
      "fromPrisma takes the client that prisma.$transaction(async (tx) => …) hands to its callback.",
    );
  }
  const dialect = requireDialect(dialects[client._activeProvider ?? ""], "fromPrisma");
  return executorOf(dialect, tx, {
    refusesWhenEnded: true,
    placeholder: (index, name) => (name === "sqlserver" ? `@P${index}` : `$${index}`),
    run: async (text, values) =>
      (await client.$queryRawUnsafe(text, ...(values as never[]))) as readonly SqlRow[],
  });
}
