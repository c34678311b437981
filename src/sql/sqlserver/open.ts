import type { ConnectionPool } from "mssql";
import { InvalidArgumentError } from "../../errors.js";
import { refuseUnknown } from "../../queue/arguments.js";
import { defaultConnections } from "../default-connections.js";
import type { ReceivingDatabase } from "../dialect.js";
import { requireDriver } from "../require-driver.js";
import { type MssqlConfig, type MssqlDriver, mssqlClient } from "./client.js";
import { describe, describeConnectionString, parseMssqlUrl } from "./connection-settings.js";
import { sqlServerReceiving } from "./receiving-dialect.js";

export interface SqlServerOptions {
  /** `mssql://user:password@host:1433/database?trustServerCertificate=false` */
  readonly url?: string;
  /** `Server=tcp:host,1433;Database=orders;User Id=app;Password=…;Encrypt=true` */
  readonly connectionString?: string;
  /** Anything else `mssql` takes: authentication for Microsoft Entra, timeouts, … The url or connectionString wins over it. */
  readonly config?: Partial<MssqlConfig>;
  /** A `ConnectionPool` of your own, instead of the settings. `close` leaves it open. */
  readonly pool?: ConnectionPool;
  /** Connections of this instance: 4 by default. */
  readonly maxConnections?: number;
}

export interface SqlServerConnection extends ReceivingDatabase {
  readonly driver: MssqlDriver;
}

/** Enough to receive messages: it imports neither the other statements nor the schema, so bundles that only receive stay small. */
export function connectSqlServer(options: SqlServerOptions): SqlServerConnection {
  const { url, connectionString } = options;
  refuseUnknown(options, ["url", "connectionString", "config", "pool", "maxConnections"], "openSqlServer");
  if (options.pool !== undefined) return onPool(options, options.pool);
  if (url !== undefined && connectionString !== undefined) {
    throw new InvalidArgumentError("openSqlServer takes a url or a connectionString, not both.");
  }
  if (url === undefined && connectionString === undefined && !options.config?.server) {
    throw new InvalidArgumentError(
      "openSqlServer needs a url, a connectionString, a pool, or a config with a server.",
    );
  }
  requireDriver("mssql", "SQL Server");
  const fromUrl: Partial<MssqlConfig> = url === undefined ? {} : parseMssqlUrl(url);
  const config: Partial<MssqlConfig> = {
    connectionTimeout: 15_000,
    requestTimeout: 30_000,
    // Checks the socket before use. Asking the server as well would double the round trips.
    validateConnection: "socket",
    ...options.config,
    ...fromUrl,
    pool: { max: defaultConnections, min: 0, idleTimeoutMillis: 30_000, ...options.config?.pool },
    options: { appName: "oncebox", encrypt: true, ...options.config?.options, ...fromUrl.options },
  };
  const driver = mssqlClient({ connectionString, config, maxConnections: options.maxConnections });
  return {
    dialect: sqlServerReceiving,
    driver,
    id: `sqlserver:${connectionString === undefined ? describe(config.server, config.database) : describeConnectionString(connectionString)}`,
    close: () => driver.close(),
  };
}

function onPool(options: SqlServerOptions, pool: ConnectionPool): SqlServerConnection {
  if (Object.entries(options).some(([name, value]) => name !== "pool" && value !== undefined))
    throw new InvalidArgumentError("openSqlServer: give a pool, or settings of a connection, not both.");
  // its types do not list them
  const { config } = pool as unknown as { readonly config?: MssqlConfig };
  if (typeof pool.request !== "function" || config === undefined)
    throw new InvalidArgumentError("openSqlServer: pool must be a ConnectionPool of mssql.");
  if (config.options?.useUTC === false)
    throw new InvalidArgumentError(
      "openSqlServer: the pool has useUTC: false, so times would be read wrong.",
    );
  requireDriver("mssql", "SQL Server");
  const driver = mssqlClient({ config, pool });
  return {
    dialect: sqlServerReceiving,
    driver,
    id: `sqlserver:${describe(config.server, config.database)}`,
    close: () => driver.close(),
  };
}
