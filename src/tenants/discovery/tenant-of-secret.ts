import { plainHost } from "../../config/allowed-databases.js";
import { databaseUrlForms } from "../../config/database-url.js";
import { InvalidOperationError } from "../../errors.js";
import type { Tenant } from "../tenant.js";

/** The JSON that AWS writes for its own databases, and rotates. */
interface DatabaseSecret {
  readonly engine: string;
  readonly username?: string;
  readonly password?: string;
  readonly host: string;
  readonly port?: number | string;
  readonly dbname?: string;
}

/**
 * The tenant that a secret's text describes: a database URL, JSON with `url` and optionally `schema`, `inbox` and
 * `outbox`, or the JSON that AWS writes for a database. No error quotes the text.
 */
export function tenantOfSecret(id: string, text: string): Tenant {
  if (!text.trimStart().startsWith("{")) return { id, database: text.trim() };
  const { url, schema, inbox, outbox, ...rest } = parsed(id, text) as Partial<DatabaseSecret> &
    Record<"url" | "schema" | "inbox" | "outbox", string | undefined>;
  const database = url ?? urlOf(rest);
  if (typeof database !== "string") throw unreadable(id);
  return { id, database, schema, inbox, outbox };
}

function parsed(id: string, text: string): object {
  try {
    return Object(JSON.parse(text));
  } catch {
    throw unreadable(id);
  }
}

function urlOf({ engine, username, password, host, port, dbname }: Partial<DatabaseSecret>) {
  const scheme = /postgres/i.test(engine ?? "") ? "postgres" : /sqlserver/i.test(engine ?? "") ? "mssql" : "";
  // Anything else could be read as another host, or as parameters.
  const isPlain = typeof host === "string" && plainHost.test(host) && /^\d{0,5}$/.test(String(port ?? ""));
  if (scheme === "" || !isPlain) return undefined;
  const part = (value: string | undefined) => encodeURIComponent(value ?? "");
  return `${scheme}://${part(username)}:${part(password)}@${host}${port === undefined ? "" : `:${port}`}/${part(dbname)}`;
}

const unreadable = (id: string) =>
  new InvalidOperationError(
    `The secret of the tenant "${id}" is not a database URL. It must be ${databaseUrlForms}, or JSON with that as "url".`,
  );
