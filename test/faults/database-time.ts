import type { Database } from "../../src/index.js";
import { statement } from "../../src/sql/driver.js";

const clock = statement("clock", "select extract(epoch from clock_timestamp())::float8 * 1000 as now");

/** In milliseconds, by PostgreSQL's clock. */
export const databaseTime = async (db: Database): Promise<number> =>
  Number((await db.driver.query(clock, {}))[0]!.now);
