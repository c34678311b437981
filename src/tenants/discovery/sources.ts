import { mapLimit } from "../../base/async.js";
import { safeReason } from "../../base/logger.js";
import { openDatabase } from "../../config/database-url.js";
import type { SecretReference } from "../../config/secret-reference.js";
import { checkTenants, listOf } from "../../config/tenant-settings.js";
import { InvalidArgumentError } from "../../errors.js";
import { refuseUnknown } from "../../queue/arguments.js";
import { type CatalogueName, createCatalogue, selectTenants } from "../../sql/catalogue.js";
import type { Database } from "../../sql/dialect.js";
import type { SqlRow } from "../../sql/driver.js";
import { fromRecords, normalKey, type Tenant, type TenantDiscovery } from "../tenant.js";

/** Secrets that are fetched at once. */
const fetchesAtOnce = 20;

/** A tenant in a configuration. */
export interface ConfiguredTenant extends Omit<Tenant, "database"> {
  /** A URL, or a reference to a secret that holds the URL. */
  readonly database: string | SecretReference;
}

/**
 * Tenants that are listed in the code. Throws one error with everything that is wrong with them.
 *
 * @example
 * tenantsFromConfiguration([
 *   { id: "acme", database: "sqlite:acme.db" },
 *   { id: "globex", database: { from: "env", name: "GLOBEX_URL" } },
 * ]);
 */
export function tenantsFromConfiguration(tenants: readonly ConfiguredTenant[]): TenantDiscovery {
  const valid = checkTenants(tenants, "tenants", repeated(tenants)) as readonly ConfiguredTenant[];
  /** The last URL of each tenant: while its secret cannot be fetched, a tenant keeps its database. */
  const urls = new Map<string, string>();
  return async ({ resolveSecret, logger }) => {
    const failures: unknown[] = [];
    await mapLimit(valid, fetchesAtOnce, async ({ id, database }) => {
      if (typeof database === "string") return;
      try {
        urls.set(id, await resolveSecret(database));
      } catch (error) {
        failures.push(error);
        const reason = safeReason(error);
        logger.warn("the database of a tenant could not be read", { tenant: id, reason });
      }
    });
    // Not one secret could be fetched: the whole store of secrets is unavailable.
    if (valid.length > 0 && failures.length === valid.length) throw failures[0];
    return valid.flatMap(({ database, ...rest }): Tenant | [] => {
      const url = typeof database === "string" ? database : urls.get(rest.id);
      return url === undefined ? [] : { ...rest, database: url };
    });
  };
}

/** The problems of keys that are listed more than once. A key that is not a text is reported by `checkTenants`. */
function repeated(tenants: unknown): readonly string[] {
  const seen = new Set<string>();
  const twice = new Set<string>();
  for (const one of listOf(tenants)) {
    const { id } = Object(one) as Partial<Tenant>;
    if (typeof id !== "string") continue;
    const key = normalKey(id);
    if (seen.has(key)) twice.add(key);
    seen.add(key);
  }
  return [...twice].map((key) => `${JSON.stringify(key)} is listed more than once`);
}

/** Where the table of tenants is. */
export interface CatalogueOptions extends CatalogueName {
  /** The database that has the table: a URL, a reference to a secret that holds the URL, or an open database. */
  readonly database: string | SecretReference | Database;
}

type Source = CatalogueOptions["database"];

/**
 * Tenants from a table with the columns `id`, `database_url`, `schema_name`, `inbox_table` and `outbox_table`; the
 * last three may be null. `catalogueTable` returns its `create table`; a view with these columns will do, too.
 *
 * @example
 * tenantsFromCatalogue({ database: "postgres://app@db.example/catalogue" });
 */
export function tenantsFromCatalogue(options: CatalogueOptions): TenantDiscovery {
  refuseUnknown(options, ["database", "table", "schema"], "tenantsFromCatalogue");
  const { database } = options;
  if (database === undefined || database === null || database === "") {
    throw new InvalidArgumentError(
      "tenantsFromCatalogue: database must be a URL, a reference to a secret, or an open database.",
    );
  }
  const query = selectTenants(options);
  return fromRecords(async ({ signal, resolveSecret }) => {
    const db = isOpen(database)
      ? database
      : await openDatabase(await urlOf(database, resolveSecret), singleConnection);
    try {
      return (await db.driver.query(query, {}, { signal })).map(toTenant);
    } finally {
      // The table is read once in five minutes: no connection is kept open for that.
      if (!isOpen(database)) void db.close().catch(() => {});
    }
  });
}

/** Returns the statement that creates the table, for a migration of your own. */
export function catalogueTable(name: CatalogueName = {}): string {
  refuseUnknown(name, ["table", "schema"], "catalogueTable");
  return createCatalogue(name);
}

const singleConnection = { maxConnections: 1 };

const isOpen = (database: Source): database is Database =>
  typeof database === "object" && "driver" in database;

const urlOf = async (
  database: string | SecretReference,
  resolve: (reference: SecretReference) => Promise<string>,
): Promise<string> => (typeof database === "string" ? database : resolve(database));

/** A view may return numbers as keys, and nulls where the table has none: such a tenant is left out with a warning. */
function toTenant(row: SqlRow): Tenant {
  const text = (name: string) => (row[name] === null ? undefined : String(row[name]));
  return {
    id: text("id")!,
    database: text("database_url")!,
    schema: text("schema_name"),
    inbox: text("inbox_table"),
    outbox: text("outbox_table"),
  };
}
