import { createHash } from "node:crypto";
import type { Dialect } from "../sql/dialect.js";
import type { SqlExecutor } from "../sql/driver.js";
import { isTrue } from "../sql/is-true.js";

/**
 * Takes the lock of an idempotency key in the transaction `tx`, without waiting. Returns false when another transaction
 * holds it. Where the dialect has no such lock, the result is always true.
 */
export async function takeIdempotencyLock(
  { idempotencyLock }: Dialect,
  tx: SqlExecutor,
  subscriber: string,
  key: string,
): Promise<boolean> {
  if (idempotencyLock === undefined) return true;
  const [row] = await tx.query(idempotencyLock, { name: lockName(subscriber, key) });
  return isTrue(row?.locked);
}

/** A hash: a lock's name has 255 characters at most in SQL Server, fewer than a subscriber and a key together. */
const lockName = (subscriber: string, key: string): string =>
  `oncebox:${createHash("sha256")
    .update(JSON.stringify([subscriber, key]))
    .digest("hex")}`;
