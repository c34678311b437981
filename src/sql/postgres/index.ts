import type { PoolConfig } from "pg";
import { InvalidArgumentError } from "../../errors.js";
import { refuseUnknown } from "../../queue/arguments.js";
import type { Database } from "../dialect.js";
import { type SqlExecutor, statement } from "../driver.js";
import { type PgQueryable, pgClient, pgQuery } from "./client.js";
import { postgresDialect } from "./dialect.js";

export { postgresDialect } from "./dialect.js";
export { type WakeUpOptions, wakeUpOnNotify } from "./listen.js";
export { disableNotify, enableNotify, type NotifyQueue } from "./notify.js";

export interface PostgresOptions {
  /** `postgres://user:password@host/database?sslmode=verify-full` */
  readonly url?: string;
  /** Anything else `pg.Pool` takes: host, ssl, password as a function for tokens, … */
  readonly config?: PoolConfig;
  /** Connections of this instance: 4 by default. */
  readonly maxConnections?: number;
  /** Named prepared statements (the default). Turn off behind a pooler that cannot hold them. */
  readonly prepare?: boolean;
}

/**
 * A PostgreSQL database; the driver is loaded and the pool made at first use.
 *
 * @example
 * const db = openPostgres({ url: "postgres://app@db.example/orders" });
 */
export function openPostgres(options: PostgresOptions): Database {
  refuseUnknown(options, ["url", "config", "maxConnections", "prepare"], "openPostgres");
  if (options.url === undefined && options.config === undefined) {
    throw new InvalidArgumentError("openPostgres needs a url or a config.");
  }
  const config: PoolConfig = {
    max: options.maxConnections ?? 4,
    connectionTimeoutMillis: 15_000,
    idleTimeoutMillis: 30_000,
    keepAlive: true,
    pipeline: true,
    ...options.config,
    ...(options.url === undefined ? {} : { connectionString: options.url }),
  };
  const driver = pgClient({ config, prepare: options.prepare ?? true });
  return {
    dialect: postgresDialect,
    driver,
    id: `postgres:${describe(config)}`,
    exclusively: (schema, work) =>
      driver.transaction(async (tx) => {
        await tx.query(lock, { key: `oncebox:${schema}` });
        return work(tx);
      }),
    close: () => driver.close(),
  };
}

const lock = statement("migration lock", "select pg_advisory_xact_lock(hashtextextended(:key::text, 0))");

/** Host and database, never user or password. */
function describe(config: PoolConfig): string {
  if (config.connectionString === undefined) return `${config.host ?? "localhost"}/${config.database ?? ""}`;
  try {
    const url = new URL(config.connectionString);
    return `${url.hostname}${url.pathname}`;
  } catch {
    return "unknown";
  }
}

/**
 * The transaction that is open on a `pg` client of the caller's.
 *
 * @example
 * await client.query("begin");
 * await outbox.enqueue({ topic: "order.created", payload }, { tx: fromPg(client) });
 * await client.query("commit");
 */
export function fromPg(client: PgQueryable): SqlExecutor {
  if (typeof client?.query !== "function" || "totalCount" in client) {
    throw new InvalidArgumentError(
      "fromPg takes a pg Client or PoolClient with an open transaction, not a Pool.",
    );
  }
  return { query: (statement, params) => pgQuery(client, statement, params, false) };
}
