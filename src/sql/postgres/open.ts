import type { Pool, PoolConfig } from "pg";
import { omitUndefined } from "../../base/defined.js";
import { InvalidArgumentError } from "../../errors.js";
import { refuseUnknown } from "../../queue/arguments.js";
import type { ReceivingDatabase } from "../dialect.js";
import { defaultConnections, requireDriver } from "../driver.js";
import { pgClient } from "./client.js";
import { connectionSettings } from "./entra.js";
import { postgresReceiving } from "./receive.js";

/** How PostgreSQL is reached. */
export interface PostgresOptions {
  /**
   * `postgres://user:password@host/database?sslmode=verify-full`; on Azure `postgres://identity@host/database?authentication=entra`.
   * Behind a pooler in transaction mode with `prepare=false`: see docs/poolers.md.
   */
  readonly url?: string;
  /** Anything else `pg.Pool` takes: host, ssl, password as a function for tokens, … */
  readonly config?: PoolConfig;
  /** A `pg.Pool` of your own, instead of url, config and maxConnections. `close` leaves it open. */
  readonly pool?: Pool;
  /** Connections of this instance: 4 by default. */
  readonly maxConnections?: number;
  /** Named prepared statements (the default). Turn them off behind a pooler in transaction mode, here or in the URL. */
  readonly prepare?: boolean;
}

/** Enough to receive messages: it imports neither the other statements nor the schema, so bundles that only receive stay small. */
export function connectPostgres(options: PostgresOptions): ReceivingDatabase<"postgres"> {
  refuseUnknown(options, ["url", "config", "pool", "maxConnections", "prepare"], "openPostgres");
  const { pool } = options;
  if (pool !== undefined) requirePool(options, pool);
  else if (options.url === undefined && options.config === undefined) {
    throw new InvalidArgumentError("openPostgres needs a url, a config or a pool.");
  }
  requireDriver("pg", "PostgreSQL");
  const config: PoolConfig = pool?.options ?? {
    max: options.maxConnections ?? defaultConnections,
    connectionTimeoutMillis: 15_000,
    idleTimeoutMillis: 30_000,
    keepAlive: true,
    pipeline: true,
    ...options.config,
    ...connectionSettings(options.url),
  };
  const driver = pgClient({ config, prepare: isPrepared(options), ...omitUndefined({ pool }) });
  return {
    dialect: postgresReceiving,
    driver,
    id: `postgres:${describeTarget(config)}`,
    close: () => driver.close(),
  };
}

/** Whether statements are prepared under names. */
export function isPrepared({ url, prepare }: PostgresOptions): boolean {
  const inUrl = prepareOf(url);
  if (inUrl !== undefined && prepare !== undefined && inUrl !== prepare)
    throw new InvalidArgumentError("openPostgres: prepare is given twice, and the URL says otherwise.");
  return prepare ?? inUrl ?? true;
}

/**
 * What `?prepare=false` in a URL says: no named prepared statement is used, since a pooler that lends a session of the server for
 * one transaction would execute it in another session. Undefined where the URL says nothing.
 */
function prepareOf(url: string | undefined): boolean | undefined {
  if (url === undefined || !URL.canParse(url)) return undefined;
  const given = new URL(url).searchParams.getAll("prepare");
  if (given.length === 0) return undefined;
  if (given.length > 1 || !["true", "false"].includes(given[0]!))
    throw new InvalidArgumentError("prepare in a PostgreSQL URL must be true or false, once.");
  return given[0] === "true";
}

function requirePool({ url, config, maxConnections }: PostgresOptions, pool: Pool): void {
  if (url !== undefined || config !== undefined || maxConnections !== undefined)
    throw new InvalidArgumentError("openPostgres: give a pool, or url, config and maxConnections, not both.");
  if (typeof pool?.connect !== "function" || !("totalCount" in pool))
    throw new InvalidArgumentError("openPostgres: pool must be a pg.Pool.");
}

/** Host and database, never user or password. */
function describeTarget(config: PoolConfig): string {
  if (config.connectionString === undefined) return `${config.host ?? "localhost"}/${config.database ?? ""}`;
  try {
    const url = new URL(config.connectionString);
    return `${url.hostname}${url.pathname}`;
  } catch {
    return "unknown";
  }
}
