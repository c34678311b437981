import { InvalidArgumentError } from "../errors.js";
import type { Database } from "../sql/dialect.js";
import { databaseOpeners } from "./database-openers.js";

export const databaseUrlForms =
  "sqlite:file.db, postgres://user:password@host/database, mssql://user:password@host/database, or an ADO connection string (Server=…;Database=…)";

/**
 * The database that a URL names; only its dialect is loaded. No message quotes the URL: it may hold a password.
 * A bundle has the dialect it was built with.
 */
export async function openDatabase(
  url: string,
  options: { readonly maxConnections?: number } = {},
): Promise<Database> {
  const scheme = /^([a-z]+):/i.exec(url)?.[1]?.toLowerCase();
  if (scheme === "sqlite" || scheme === "file") {
    const openSqlite = await databaseOpeners.sqlite();
    return openSqlite({ file: sqliteFile(url) });
  }
  if (scheme === "postgres" || scheme === "postgresql") {
    requireReadable(url);
    const openPostgres = await databaseOpeners.postgres();
    return openPostgres({ url, ...options });
  }
  if (scheme === "mssql" || scheme === "sqlserver") {
    const openSqlServer = await databaseOpeners.sqlserver();
    return openSqlServer({ url: url.replace(/^sqlserver:/i, "mssql:"), ...options });
  }
  if (/(^|;)\s*(server|data source|addr|address|network address)\s*=/i.test(url)) {
    requireValues(url);
    const openSqlServer = await databaseOpeners.sqlserver();
    return openSqlServer({ connectionString: url, ...options });
  }
  throw refused("is of no known kind");
}

const refused = (why: string): InvalidArgumentError =>
  new InvalidArgumentError(`The database URL ${why}. Write ${databaseUrlForms}.`);

/** The driver would find out with the first query. It takes a URL without a host for a local socket's. */
function requireReadable(url: string): void {
  if ([url, url.replace("@/", "@socket/")].some((one) => URL.canParse(one))) return;
  throw refused("cannot be read: special characters in user and password must be percent-encoded");
}

/** The driver takes what follows an empty value for that value, and its errors then quote a password as a server's name. */
function requireValues(connectionString: string): void {
  const unquoted = connectionString.replace(/"[^"]*"|'[^']*'/g, "quoted");
  const [, name] = /(?:^|;)\s*([^=;]+?)\s*=\s*(?:;|$)/.exec(unquoted) ?? [];
  if (name !== undefined) throw refused(`has no value for "${name}": give it one, or leave it out`);
}

/** `sqlite:app.db`, `sqlite:///var/app.db`, `file:app.db`, `file:///C:/app.db`, `sqlite::memory:` */
function sqliteFile(url: string): string {
  const file = url
    .replace(/^(sqlite|file):/i, "")
    .replace(/^\/\/(?=\/|[^/]*$)/, "")
    .replace(/^\/(?=[a-z]:[\\/])/i, "");
  if (file === "") throw refused("names no file");
  try {
    return decodeURIComponent(file);
  } catch {
    return file; // a percent sign that stands for itself
  }
}
