import type { Database } from "../../src/index.js";
import type { SqlDriver, SqlQueryable } from "../../src/sql/driver.js";
import { openPostgres } from "../../src/sql/postgres/index.js";
import { openSqlite } from "../../src/sql/sqlite/index.js";
import { openSqlServer } from "../../src/sql/sqlserver/index.js";

export interface MinedDatabase extends Database {
  /** How many points the process has passed. */
  passed(): number;
}

/**
 * A database on which this process kills itself at the n-th point: before a statement is sent, after it is sent, after it is
 * answered, and around begin and commit. 0: at none.
 */
export function openMined(url: string, killAt: number): MinedDatabase {
  const db = opened(url);
  let passed = 0;
  const point = (): void => {
    if (++passed === killAt) process.kill(process.pid, "SIGKILL");
  };
  const minedExecutor = <Executor extends SqlQueryable>(
    tx: Executor,
    isCommitting: () => boolean,
  ): Executor => ({
    ...tx,
    async query(text, params, options) {
      point();
      const result = tx.query(text, params, options);
      point();
      const rows = await result;
      if (!isCommitting()) point(); // the commit may be sent before the last statement is answered
      return rows;
    },
  });
  const driver: SqlDriver = {
    ...minedExecutor(db.driver, () => false),
    async transaction(work, options) {
      let isCommitting = false;
      point();
      const result = await db.driver.transaction(async (tx) => {
        const output = await work(minedExecutor(tx, () => isCommitting));
        point(); // the commit is next
        isCommitting = true;
        return output;
      }, options);
      point(); // committed, and the caller does not know yet
      return result;
    },
    close: () => db.driver.close(),
  };
  return { ...db, driver, passed: () => passed };
}

function opened(url: string): Database {
  if (url.startsWith("postgres:")) return openPostgres({ url });
  return url.startsWith("mssql:") ? openSqlServer({ url }) : openSqlite({ file: url });
}
