import { InvalidArgumentError } from "../errors.js";

export const databaseUrlForms =
  "sqlite:file.db, postgres://user:password@host/database, mssql://user:password@host/database, or an ADO connection string (Server=…;Database=…)";

export interface OpenDatabaseOptions {
  readonly maxConnections?: number;
}

/** By dialect, each loaded when it is asked for. */
export interface DatabaseOpeners<Opened> {
  readonly sqlserver: Opener<OpenDatabaseOptions & { url?: string; connectionString?: string }, Opened>;
  readonly postgres: Opener<OpenDatabaseOptions & { url: string }, Opened>;
  readonly sqlite: Opener<{ file: string }, Opened>;
}
type Opener<Options, Opened> = () => Promise<(options: Options) => Opened>;

/** Only the dialect that the URL names is loaded. No message quotes the URL: it may hold a password. */
export async function openByUrl<Opened>(
  openers: DatabaseOpeners<Opened>,
  url: string,
  options: OpenDatabaseOptions = {},
): Promise<Opened> {
  switch (kindOf(url)) {
    case "sqlite": {
      const open = await openers.sqlite();
      return open({ file: sqliteFile(url) });
    }
    case "postgres": {
      const open = await openers.postgres();
      return open({ url, ...options });
    }
    case "mssql": {
      const open = await openers.sqlserver();
      return open({ url: url.replace(/^sqlserver:/i, "mssql:"), ...options });
    }
    case "ado": {
      const open = await openers.sqlserver();
      return open({ connectionString: url, ...options });
    }
  }
}

/** What is wrong with it, as far as can be told without a driver; undefined when nothing is. */
export function databaseUrlProblem(url: string): string | undefined {
  try {
    if (kindOf(url) === "sqlite") sqliteFile(url);
    return undefined;
  } catch (error) {
    return (error as InvalidArgumentError).message;
  }
}

function kindOf(url: string): "sqlite" | "postgres" | "mssql" | "ado" {
  const scheme = /^([a-z]+):/i.exec(url)?.[1]?.toLowerCase();
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
