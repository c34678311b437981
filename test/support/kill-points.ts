import type { Database } from "../../src/index.js";
import type { SqlDriver, SqlQueryable } from "../../src/sql/driver.js";

export interface KillPoints {
  /** Kills the process when it is the chosen one. */
  point(): void;
  /** How many were passed. */
  passed(): number;
}

/** Points of a program, of which the `killAt`-th ends its process; 0 for none. */
export function killPoints(killAt: number): KillPoints {
  let passed = 0;
  return {
    point() {
      if (++passed === killAt) process.kill(process.pid, "SIGKILL");
    },
    passed: () => passed,
  };
}

/** The same database with points around each statement, and around begin and commit. */
export function mined(db: Database, { point }: KillPoints): Database {
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
  return { ...db, driver };
}
