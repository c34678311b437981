import type { Database } from "../../../src/sql/dialect.js";

export type StoredRows = Readonly<Record<string, readonly unknown[]>>;

/** Every row of every table of a SQLite database. */
export async function storedRows(db: Database): Promise<StoredRows> {
  const query = (text: string) => db.driver.query({ name: "query", text }, {});
  const tables = await query("select name from sqlite_master where type = 'table' order by name");
  const rows = tables.map(async ({ name }) => [name, await query(`select * from "${name}"`)] as const);
  return Object.fromEntries(await Promise.all(rows));
}
