/**
 * Handles one message with the whole stack and kills itself, as a function is killed, at one of the points between two
 * statements: before the n-th statement reaches the database, or after it did and before anything else happens. Prints
 * how many points it passed when it lives to the end.
 */
import type { Database, SqlDriver, SqlExecutor } from "../../src/index.js";
import { openPostgres } from "../../src/sql/postgres/index.js";
import { openSqlite } from "../../src/sql/sqlite/index.js";
import { openSqlServer } from "../../src/sql/sqlserver/index.js";
import { orderStack } from "./order-stack.js";

const [url, schema, messageId, killAt] = process.argv.slice(2) as [string, string, string, string];
let passed = 0;
const point = (): void => {
  if (++passed === Number(killAt)) process.kill(process.pid, "SIGKILL");
};

function opened(): Database {
  if (url.startsWith("postgres:")) return openPostgres({ url });
  return url.startsWith("mssql:") ? openSqlServer({ url }) : openSqlite({ file: url });
}

/** The same database with a point before and after each statement, and around begin and commit. */
function mined(db: Database): Database {
  const minedExecutor = (tx: SqlExecutor): SqlExecutor => ({
    async query(text, params, options) {
      point();
      const rows = await tx.query(text, params, options);
      point();
      return rows;
    },
  });
  const driver: SqlDriver = {
    ...minedExecutor(db.driver),
    async transaction(work, options) {
      point();
      const result = await db.driver.transaction(async (tx) => {
        const answer = await work(minedExecutor(tx));
        point(); // the commit is next
        return answer;
      }, options);
      point(); // committed, and nobody knows yet
      return result;
    },
    close: () => db.driver.close(),
  };
  return { ...db, driver };
}

const db = mined(opened());
await orderStack(db, schema === "" ? undefined : schema)({ messageId });
console.log(passed);
await db.close();
