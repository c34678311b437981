/**
 * Handles the two messages of a FIFO group with transaction, inbox and outbox middleware, and kills itself at one of the
 * points between two statements: before the n-th statement is sent, after it is sent, or after it is answered. Prints how
 * many points it passed when it is not killed.
 */
import type { Database } from "../../src/index.js";
import { openPostgres } from "../../src/sql/postgres/index.js";
import { openSqlite } from "../../src/sql/sqlite/index.js";
import { openSqlServer } from "../../src/sql/sqlserver/index.js";
import { killPoints, mined } from "../support/kill-points.js";
import { groupOfTwo, orderFunction } from "./order-function.js";

const [url, schema, group, killAt] = process.argv.slice(2) as [string, string, string, string];

function opened(): Database {
  if (url.startsWith("postgres:")) return openPostgres({ url });
  return url.startsWith("mssql:") ? openSqlServer({ url }) : openSqlite({ file: url });
}

const points = killPoints(Number(killAt));
const db = mined(opened(), points);
await orderFunction(db, schema === "" ? undefined : schema)(groupOfTwo(group));
console.log(points.passed());
await db.close();
