import pg from "pg";
import { loadSqlite } from "../../src/sql/sqlite/client.js";
import { pragmas, type SqliteBinding } from "../bare/sqlite.js";
import { concurrency } from "./two-processes.js";

export interface BareStore {
  /** Inserts a row and commits. */
  insert(id: string, payload: string): Promise<void>;
  close(): Promise<void>;
}

const columns = "(id text primary key, payload text not null)";

/** One table, one prepared insert. */
export const openBareStore = (url: string, schema: string): Promise<BareStore> =>
  url.startsWith("sqlite:") ? onSqlite(url.slice("sqlite:".length)) : onPostgres(url, schema);

async function onSqlite(file: string): Promise<BareStore> {
  const DatabaseSync = (await loadSqlite()) as unknown as new (file: string) => SqliteBinding;
  const database = new DatabaseSync(file);
  database.exec(`${pragmas}create table bare ${columns} strict;`);
  const insert = database.prepare("insert into bare (id, payload) values (?, ?)");
  return {
    insert: async (id, payload) => void insert.run(id, payload),
    close: async () => database.close(),
  };
}

async function onPostgres(connectionString: string, schema: string): Promise<BareStore> {
  const pool = new pg.Pool({ connectionString, max: concurrency });
  await pool.query(`create schema ${schema}; create table ${schema}.bare ${columns}`);
  const text = `insert into ${schema}.bare (id, payload) values ($1, $2)`;
  return {
    insert: async (id, payload) => void (await pool.query({ name: "insert", text, values: [id, payload] })),
    close: () => pool.end(),
  };
}
