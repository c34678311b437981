import { openDatabase } from "../../config/open-database.js";
import type { SecretReference } from "../../config/secret-reference.js";
import { InvalidArgumentError } from "../../errors.js";
import { refuseUnknown } from "../../queue/arguments.js";
import { type CatalogueName, createCatalogue, selectTenants } from "../../sql/catalogue.js";
import type { Database } from "../../sql/dialect.js";
import type { SqlRow } from "../../sql/driver.js";
import type { Tenant } from "../tenant.js";
import { fromRecords, type TenantDiscovery } from "./discovery.js";

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
