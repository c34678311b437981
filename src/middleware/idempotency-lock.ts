import { createHash } from "node:crypto";
import type { Dialect } from "../sql/dialect.js";
import { type SqlExecutor, type SqlStatement, statement } from "../sql/driver.js";

/**
 * Locks that the transaction owns and that nobody waits for: they go with the commit, the rollback or the connection,
 * so that a killed function leaves none behind. SQLite has one writer at a time, which is lock enough.
 */
const locks: Readonly<Record<Dialect["name"], SqlStatement | undefined>> = {
  postgres: statement(
    "idempotency lock",
    "select pg_try_advisory_xact_lock(hashtextextended(:name::text, 7093)) as locked",
  ),
  sqlserver: statement(
    "idempotency lock",
    `declare @result int;
exec @result = sp_getapplock @Resource = @name, @LockMode = 'Exclusive', @LockOwner = 'Transaction', @LockTimeout = 0;
select case when @result >= 0 then 1 else 0 end as locked`,
  ),
  sqlite: undefined,
};

/** SQL Server's names have 255 characters at most, fewer than a subscriber and a key together. */
const nameOf = (key: string): string => `oncebox:${createHash("sha256").update(key).digest("hex")}`;

/** Answers whether the lock was free. */
export function idempotencyLock(
  dialect: Dialect["name"],
): (tx: SqlExecutor, key: string) => Promise<unknown> {
  const lock = locks[dialect];
  return async (tx, key) =>
    lock === undefined ? true : (await tx.query(lock, { name: nameOf(key) }))[0]?.locked;
}
