import type { ConnectionPool } from "mssql";
import { omitUndefined } from "../../base/defined.js";
import { InvalidArgumentError } from "../../errors.js";
import { refuseUnknown } from "../../queue/arguments.js";
import type { ReceivingDatabase } from "../dialect.js";
import { defaultConnections, requireDriver } from "../driver.js";
import { type MssqlConfig, type MssqlDriver, mssqlClient } from "./client.js";
import { sqlServerReceiving } from "./receive.js";

/** How SQL Server is reached. */
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

export interface SqlServerConnection extends ReceivingDatabase<"sqlserver"> {
  readonly driver: MssqlDriver;
}

/** Enough to receive messages: it imports neither the other statements nor the schema, so bundles that only receive stay small. */
export function connectSqlServer(options: SqlServerOptions): SqlServerConnection {
  refuseUnknown(options, ["url", "connectionString", "config", "pool", "maxConnections"], "openSqlServer");
  const { pool, connectionString, maxConnections } = options;
  const config = pool === undefined ? settingsOf(options) : configOfPool(options, pool);
  requireDriver("mssql", "SQL Server");
  const driver = mssqlClient({ connectionString, config, maxConnections, ...omitUndefined({ pool }) });
  const target =
    connectionString === undefined
      ? describeTarget(config.server, config.database)
      : describeConnectionString(connectionString);
  return { dialect: sqlServerReceiving, driver, id: `sqlserver:${target}`, close: () => driver.close() };
}

function settingsOf({ url, connectionString, config }: SqlServerOptions): Partial<MssqlConfig> {
  if (url !== undefined && connectionString !== undefined) {
    throw new InvalidArgumentError("openSqlServer takes a url or a connectionString, not both.");
  }
  if (url === undefined && connectionString === undefined && !config?.server) {
    throw new InvalidArgumentError(
      "openSqlServer needs a url, a connectionString, a pool, or a config with a server.",
    );
  }
  const fromUrl: Partial<MssqlConfig> = url === undefined ? {} : parseMssqlUrl(url);
  return {
    connectionTimeout: 15_000,
    requestTimeout: 30_000,
    // Checks the socket before use. Asking the server as well would double the round trips.
    validateConnection: "socket",
    ...config,
    ...fromUrl,
    pool: { max: defaultConnections, min: 0, idleTimeoutMillis: 30_000, ...config?.pool },
    options: { appName: "oncebox", encrypt: true, ...config?.options, ...fromUrl.options },
  };
}

function configOfPool(options: SqlServerOptions, pool: ConnectionPool): MssqlConfig {
  if (Object.entries(options).some(([name, value]) => name !== "pool" && value !== undefined))
    throw new InvalidArgumentError("openSqlServer: give a pool, or settings of a connection, not both.");
  // its types do not list it
  const { config } = pool as unknown as { readonly config?: MssqlConfig };
  if (typeof pool.request !== "function" || config === undefined)
    throw new InvalidArgumentError("openSqlServer: pool must be a ConnectionPool of mssql.");
  if (config.options?.useUTC === false)
    throw new InvalidArgumentError(
      "openSqlServer: the pool has useUTC: false, so times would be read wrong.",
    );
  return config;
}

const textOptions: readonly string[] = ["appName", "instanceName"];
const knownOptions = ["encrypt", "trustServerCertificate", "multiSubnetFailover", ...textOptions];

/**
 * `mssql://user:password@host:1433/database?encrypt=true&trustServerCertificate=false`. Parsed here, because mssql itself
 * does not parse URLs. No error quotes the URL, because it may contain a password.
 */
export function parseMssqlUrl(text: string): Partial<MssqlConfig> & { server: string } {
  const url = toUrl(text);
  const server = url.hostname.replace(/^\[(.*)\]$/, "$1");
  if (server === "")
    throw new InvalidArgumentError(
      "The SQL Server URL names no host. Write mssql://user:password@host:1433/database.",
    );
  const database = decode(url.pathname.slice(1), "database");
  const options = [...url.searchParams].map(optionOf);
  const names = options.map(([name]) => name);
  const repeated = names.find((name, index) => names.indexOf(name) !== index);
  if (repeated !== undefined)
    throw new InvalidArgumentError(`The SQL Server URL has the option ${repeated} twice. Give it once.`);
  return {
    server,
    ...omitUndefined({
      port: url.port === "" ? undefined : Number(url.port),
      database: database === "" ? undefined : database,
      user: url.username === "" ? undefined : decode(url.username, "user"),
      password: url.password === "" ? undefined : decode(url.password, "password"),
    }),
    options: Object.fromEntries(options),
  };
}

function toUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol !== "mssql:") {
    throw new InvalidArgumentError(
      "The SQL Server URL must look like mssql://user:password@host:1433/database, with special characters in user and password percent-encoded.",
    );
  }
  return url;
}

function decode(part: string, what: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    throw new InvalidArgumentError(
      `The ${what} in the SQL Server URL is not percent-encoded correctly: write % as %25.`,
    );
  }
}

function optionOf([name, value]: [string, string]): [string, string | boolean] {
  if (!knownOptions.includes(name)) {
    throw new InvalidArgumentError(
      `The SQL Server URL has the unknown option ${name}. Known options: ${knownOptions.join(", ")}. Pass others in config.`,
    );
  }
  const isText = textOptions.includes(name) || (name === "encrypt" && value === "strict"); // TDS 8
  if (isText) return [name, value];
  if (value !== "true" && value !== "false") {
    throw new InvalidArgumentError(
      `The option ${name} in the SQL Server URL must be true or false${name === "encrypt" ? ", or strict" : ""}.`,
    );
  }
  return [name, value === "true"];
}

/** A keyword and a value. A quoted value may contain anything, also `;` and `=`. */
const pairs = /([^=;]+)=\s*("(?:[^"]|"")*"|'(?:[^']|'')*'|[^;]*)/g;
const serverWords = ["data source", "server", "address", "addr", "network address"];
const databaseWords = ["initial catalog", "database"];

/** Server and database of a connection string, for logs, and nothing else of it. */
export function describeConnectionString(text: string): string {
  const found = new Map<string, string>();
  for (const [, word, value] of text.matchAll(pairs))
    found.set(word!.trim().toLowerCase(), unquote(value!.trim()));
  const first = (words: readonly string[]) =>
    words.map((word) => found.get(word)).find((value) => value !== undefined);
  return describeTarget(first(serverWords), first(databaseWords));
}

const unquote = (value: string) => value.replace(/^(["'])(.*)\1$/s, "$2");

const describeTarget = (server: string | undefined, database: string | undefined): string =>
  `${server ?? "unknown"}/${database ?? ""}`;
