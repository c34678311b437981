import { type DatabaseUser, databaseRoles } from "../config/database-users.js";
import { openDatabase } from "../config/open-database.js";
import { createCatalogue } from "../sql/catalogue.js";
import type { Database } from "../sql/dialect.js";
import { statement } from "../sql/driver.js";
import { type MigrateOptions, type MigrateResult, migrate } from "../sql/migrate.js";
import type { App } from "./create-app.js";
import { grantUsers, type UserScripts } from "./grant-users.js";

export interface PrepareOptions {
  readonly users: readonly DatabaseUser[];
  readonly scripts: UserScripts;
  /** For an app with many tenants: the database that has, or shall have, their catalogue. */
  readonly catalogueUrl: string | undefined;
}

/**
 * Everything between an empty database and the first message: tables, roles, users and their rights; for many tenants the
 * catalogue first, then the database of each. May be run again, and then does what is new.
 */
export async function prepareDatabases(
  app: Pick<App, "db" | "tenants" | "migrate" | "migrateOptions">,
  { users, scripts, catalogueUrl }: PrepareOptions,
): Promise<MigrateResult> {
  if (app.tenants === undefined) {
    const result = await app.migrate();
    await grantUsers(app.db, app.migrateOptions, users, scripts);
    return result;
  }
  if (catalogueUrl !== undefined) await prepareCatalogue(catalogueUrl, users, scripts);
  await app.tenants.refresh();
  const result = await app.migrate();
  for (const id of await app.tenants.distinctStores()) {
    const { db, tables } = await app.tenants.stores(id);
    await grantUsers(db, tables as MigrateOptions, users, scripts);
  }
  return result;
}

/** The catalogue's database has oncebox's own tables too, because the roles that may read the catalogue come with them. */
async function prepareCatalogue(
  url: string,
  users: readonly DatabaseUser[],
  scripts: UserScripts,
): Promise<void> {
  const db = await openDatabase(url, { maxConnections: 1 });
  try {
    await migrate(db);
    await grantUsers(db, {}, users, scripts);
    await createCatalogueTable(db);
  } finally {
    await db.close();
  }
}

/** The roles that find tenants. The inbox service does not: with tenants it has a store of its own. */
const readers = databaseRoles.filter((role) => role !== "oncebox_service");

/** The table of tenants, which may hold passwords. The roles that read it exist already. */
export async function createCatalogueTable(db: Database): Promise<void> {
  const run = (text: string) => db.driver.query({ ...statement("catalogue", text), unprepared: true }, {});
  const exists = await run('select 1 as found from "tenants"').then(
    () => true,
    () => false,
  );
  if (!exists) await run(createCatalogue({}));
  if (db.dialect.name === "sqlite") return; // a file has no roles
  for (const role of readers) await run(`grant select on "tenants" to "${role}"`);
}
