import { databaseUrlForms } from "../../config/database-url.js";
import { InvalidOperationError } from "../../errors.js";
import type { Tenant } from "../tenant.js";

/** As AWS writes them for its own databases, and rotates them. */
interface DatabaseSecret {
  readonly engine: string;
  readonly username?: string;
  readonly password?: string;
  readonly host: string;
  readonly port?: number | string;
  readonly dbname?: string;
}

/**
 * A tenant from the text of a secret: a database URL, or JSON with `url` and perhaps `schema`, `inbox` and `outbox`, or
 * what AWS keeps for a database. No message says anything of the text.
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
  if (scheme === "" || host === undefined) return undefined;
  const part = (value: string | undefined) => encodeURIComponent(value ?? "");
  return `${scheme}://${part(username)}:${part(password)}@${host}${port === undefined ? "" : `:${port}`}/${part(dbname)}`;
}

const unreadable = (id: string) =>
  new InvalidOperationError(
    `The secret of the tenant "${id}" names no database. It must be ${databaseUrlForms}, or JSON with that as "url".`,
  );
