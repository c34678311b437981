import type { PoolConfig } from "pg";
import { defined } from "../../base/defined.js";
import { InvalidArgumentError } from "../../errors.js";
import { refuseUnknown } from "../../queue/arguments.js";
import { defaultConnections } from "../default-connections.js";
import type { ReceivingDatabase } from "../dialect.js";
import { pgClient } from "./client.js";
import { postgresReceiving } from "./receiving-dialect.js";

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

/** Enough to receive messages: it imports neither the other statements nor the schema, so bundles that only receive stay small. */
export function connectPostgres(options: PostgresOptions): ReceivingDatabase {
  refuseUnknown(options, ["url", "config", "maxConnections", "prepare"], "openPostgres");
  if (options.url === undefined && options.config === undefined) {
    throw new InvalidArgumentError("openPostgres needs a url or a config.");
  }
  const config: PoolConfig = {
    max: options.maxConnections ?? defaultConnections,
    connectionTimeoutMillis: 15_000,
    idleTimeoutMillis: 30_000,
    keepAlive: true,
    pipeline: true,
    ...options.config,
    ...defined({ connectionString: options.url }),
  };
  const driver = pgClient({ config, prepare: options.prepare ?? true });
  return {
    dialect: postgresReceiving,
    driver,
    id: `postgres:${describeTarget(config)}`,
    close: () => driver.close(),
  };
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
