import type { TransactionMiddleware } from "./transaction-middleware.js";

/** Thrown into the transaction to roll it back, and caught outside of it. */
const notHandled = new Error("rolled back");

/** Commits when the outcome is `handled`, and rolls back otherwise. */
export async function commitIfHandled<Outcome extends { readonly kind: string }>(
  transaction: TransactionMiddleware,
  work: () => Promise<Outcome>,
): Promise<Outcome> {
  let outcome: Outcome | undefined;
  try {
    await transaction.run(undefined, async () => {
      outcome = await work();
      if (outcome.kind !== "handled") throw notHandled;
    });
  } catch (error) {
    if (error !== notHandled) throw error;
  }
  return outcome!;
}
