/**
 * Handles the two messages of a FIFO group with transaction, inbox and outbox middleware, and kills itself at one of the
 * points between two statements: before the n-th statement is sent, after it is sent, or after it is answered. Prints how
 * many points it passed when it is not killed.
 */
import type { Database, SqlDriver, SqlQueryable } from "../../src/index.js";
import { openPostgres } from "../../src/sql/postgres/index.js";
import { openSqlite } from "../../src/sql/sqlite/index.js";
import { openSqlServer } from "../../src/sql/sqlserver/index.js";
import { groupOfTwo, orderFunction } from "./order-function.js";

const [url, schema, group, killAt] = process.argv.slice(2) as [string, string, string, string];
let passed = 0;
const point = (): void => {
  if (++passed === Number(killAt)) process.kill(process.pid, "SIGKILL");
};

function opened(): Database {
  if (url.startsWith("postgres:")) return openPostgres({ url });
  return url.startsWith("mssql:") ? openSqlServer({ url }) : openSqlite({ file: url });
}

/** The same database with points around each statement, and around begin and commit. */
function mined(db: Database): Database {
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

const db = mined(opened());
await orderFunction(db, schema === "" ? undefined : schema)(groupOfTwo(group));
console.log(passed);
await db.close();
