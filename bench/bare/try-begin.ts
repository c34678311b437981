import { randomUUID } from "node:crypto";
import pg from "pg";
import { loadSqlite } from "../../src/sql/sqlite/client.js";
import { pragmas, type SqliteBinding } from "./sqlite.js";

/** What a competent engineer would write by hand instead of the inbox service's try-begin. */
export interface BareTryBegin {
  /** Returns the response's body. */
  tryBegin(key: string, leaseMs: number): Promise<unknown>;
  close(): Promise<void>;
}

/** One row per key, and one upsert that takes the key unless somebody has it. It forgets what the caller cannot ask for. */
export const openBareTryBegin = (url: string, schema: string, connections: number): Promise<BareTryBegin> =>
  url.startsWith("sqlite:") ? onSqlite(url.slice("sqlite:".length)) : onPostgres(url, schema, connections);

const acquired = (leaseId: string, expiresAt: Date) => ({ status: "Acquired", leaseId, expiresAt });
const busy = { status: "Busy" };

async function onPostgres(url: string, schema: string, connections: number): Promise<BareTryBegin> {
  const pool = new pg.Pool({ connectionString: url, max: connections });
  await pool.query(`create schema ${schema};
create table ${schema}.lease (
  key varchar(255) collate "C" primary key,
  lease_id uuid not null,
  expires_at timestamptz not null,
  processed_at timestamptz
)`);
  const text = `insert into ${schema}.lease as l (key, lease_id, expires_at)
values ($1, $2, now() + $3 * interval '1 millisecond')
on conflict (key) do update
set lease_id = excluded.lease_id, expires_at = excluded.expires_at
where l.expires_at <= now() and l.processed_at is null
returning expires_at`;
  return {
    async tryBegin(key, leaseMs) {
      const leaseId = randomUUID();
      const values = [key, leaseId, leaseMs];
      const { rows } = await pool.query<{ expires_at: Date }>({ name: "try begin", text, values });
      return rows[0] === undefined ? busy : acquired(leaseId, rows[0].expires_at);
    },
    close: () => pool.end(),
  };
}

async function onSqlite(file: string): Promise<BareTryBegin> {
  const DatabaseSync = (await loadSqlite()) as unknown as new (file: string) => SqliteBinding;
  const database = new DatabaseSync(file);
  database.exec(`${pragmas}create table lease (
  key text primary key,
  lease_id text not null,
  expires_at integer not null,
  processed_at integer
) strict, without rowid;`);
  const upsert = database.prepare(`insert into lease (key, lease_id, expires_at) values (?1, ?2, ?3)
on conflict (key) do update
set lease_id = excluded.lease_id, expires_at = excluded.expires_at
where expires_at <= ?4 and processed_at is null
returning expires_at`);
  return {
    async tryBegin(key, leaseMs) {
      const leaseId = randomUUID();
      const now = Date.now();
      const [row] = upsert.all(key, leaseId, now + leaseMs, now) as { expires_at: number }[];
      return row === undefined ? busy : acquired(leaseId, new Date(row.expires_at));
    },
    close: async () => database.close(),
  };
}
