import type { Database } from "../../src/index.js";
import { openPostgres } from "../../src/sql/postgres/index.js";
import { openSqlite } from "../../src/sql/sqlite/index.js";
import { openSqlServer } from "../../src/sql/sqlserver/index.js";
import { killPoints, mined } from "../support/kill-points.js";

export interface MinedDatabase extends Database {
  /** How many points the process has passed. */
  passed(): number;
}

/**
 * A database on which this process kills itself at the n-th point: before a statement is sent, after it is sent, after it is
 * answered, and around begin and commit. 0: at none.
 */
export function openMined(url: string, killAt: number): MinedDatabase {
  const points = killPoints(killAt);
  return { ...mined(opened(url), points), passed: points.passed };
}

function opened(url: string): Database {
  if (url.startsWith("postgres:")) return openPostgres({ url });
  return url.startsWith("mssql:") ? openSqlServer({ url }) : openSqlite({ file: url });
}
