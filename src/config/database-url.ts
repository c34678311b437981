import { InvalidArgumentError } from "../errors.js";
import type { Database } from "../sql/dialect.js";
import { databaseOpeners } from "./database-openers.js";

export const databaseUrlForms =
  "sqlite:file.db, postgres://user:password@host/database, mssql://user:password@host/database, or an ADO connection string (Server=…;Database=…)";

/** Options of a database that is opened by its URL. */
export interface OpenDatabaseOptions {
  /** 4 by default on PostgreSQL and SQL Server. A SQLite file has none. */
  readonly maxConnections?: number;
}

/**
 * Opens the database that a URL names. A bundle of `oncebox package` can open only the databases that it was built for.
 *
 * @example
 * const db = await openDatabase("postgres://app@localhost/orders", { maxConnections: 2 });
 */
export const openDatabase = (url: string, options?: OpenDatabaseOptions): Promise<Database> =>
  openByUrl(databaseOpeners, url, options);

/** Loads a dialect at its first use. */
export interface DatabaseOpeners<Opened> {
  readonly sqlserver: Opener<OpenDatabaseOptions & { url?: string; connectionString?: string }, Opened>;
  readonly postgres: Opener<OpenDatabaseOptions & { url: string }, Opened>;
  readonly sqlite: Opener<{ file: string; synchronous?: "normal" | "full" }, Opened>;
}
type Opener<Options, Opened> = () => Promise<(options: Options) => Opened>;

/** Loads only the dialect that the URL names. No error quotes the URL, which may contain a password. */
export async function openByUrl<Opened>(
  openers: DatabaseOpeners<Opened>,
  url: string,
  options: OpenDatabaseOptions = {},
): Promise<Opened> {
  switch (databaseKindOf(url)) {
    case "sqlite":
      return (await openers.sqlite())({ file: sqliteFile(url) });
    case "postgres":
      return (await openers.postgres())({ url, ...options });
    case "mssql":
      return (await openers.sqlserver())({ url: url.replace(/^sqlserver:/i, "mssql:"), ...options });
    case "ado":
      return (await openers.sqlserver())({ connectionString: url, ...options });
  }
}

/** Returns what is wrong with the URL, as far as that is known without a driver, or undefined. */
export const databaseUrlProblem = (url: string): string | undefined =>
  problemOf(() => {
    if (databaseKindOf(url) === "sqlite") sqliteFile(url);
  });

/** Returns the message of the InvalidArgumentError that `check` throws, or undefined. */
export function problemOf(check: () => void): string | undefined {
  try {
    check();
    return undefined;
  } catch (error) {
    if (error instanceof InvalidArgumentError) return error.message;
    throw error;
  }
}

export function databaseKindOf(url: string): "sqlite" | "postgres" | "mssql" | "ado" {
  const scheme = url.slice(0, Math.max(0, url.indexOf(":"))).toLowerCase();
  if (scheme === "sqlite" || scheme === "file") return "sqlite";
  if (scheme === "postgres" || scheme === "postgresql") {
    requireReadable(url);
    return "postgres";
  }
  if (scheme === "mssql" || scheme === "sqlserver") return "mssql";
  if (/(^|;)\s*(server|data source|addr|address|network address)\s*=/i.test(url)) {
    requireValues(url);
    return "ado";
  }
  throw refused("is of no known kind");
}

const refused = (why: string): InvalidArgumentError =>
  new InvalidArgumentError(`The database URL ${why}. Write ${databaseUrlForms}.`);

/** Without this the first query would fail. The driver accepts a URL without a host, for a local socket. */
function requireReadable(url: string): void {
  if ([url, url.replace("@/", "@socket/")].some((one) => URL.canParse(one))) return;
  throw refused("cannot be parsed: special characters in user and password must be percent-encoded");
}

/** The driver reads the setting after an empty value as that value. Its error would then quote a password as the server's name. */
function requireValues(connectionString: string): void {
  const unquoted = connectionString.replace(/"[^"]*"|'[^']*'/g, "quoted");
  const [, name] = /(?:^|;)\s*([^=;]+?)\s*=\s*(?:;|$)/.exec(unquoted) ?? [];
  if (name !== undefined) throw refused(`has no value for "${name}": give it one or remove it`);
}

/** `sqlite:app.db`, `sqlite:///var/app.db`, `file:app.db`, `file:///C:/app.db`, `sqlite::memory:` */
export function sqliteFile(url: string): string {
  const file = url
    .replace(/^(sqlite|file):/i, "")
    .replace(/^\/\/(?=\/|[^/]*$)/, "")
    .replace(/^\/(?=[a-z]:[\\/])/i, "");
  if (file === "") throw refused("names no file");
  try {
    return decodeURIComponent(file);
  } catch {
    return file; // a literal percent sign
  }
}
