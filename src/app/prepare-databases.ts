import { openDatabase } from "../config/database-url.js";
import { type DatabaseUser, databaseRoles } from "../config/database-users.js";
import { createCatalogue } from "../sql/catalogue.js";
import type { Database, Dialect } from "../sql/dialect.js";
import { statement } from "../sql/driver.js";
import { chosenQueues, type MigrateOptions, type MigrateResult, migrate } from "../sql/migrate.js";
import type { AppJobs } from "./jobs.js";

interface PrepareOptions {
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
  app: Pick<AppJobs, "db" | "tenants" | "migrate" | "migrateOptions">,
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

/** The roles that find tenants. The inbox service has a store of its own with tenants, and producers know their database. */
const readers = databaseRoles.filter((role) => role !== "oncebox_service" && role !== "oncebox_producers");

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

/** The texts of infra/sql/users-*.sql, which create the roles and say what each may do. */
interface UserScripts {
  readonly sqlserver: () => Promise<string>;
  readonly postgres: () => Promise<string>;
}

/** Grants the roles their rights on the app's tables, and makes each user a member of its role. May be run again. */
export async function grantUsers(
  { dialect, driver }: Pick<Database, "dialect" | "driver">,
  tables: MigrateOptions,
  users: readonly DatabaseUser[],
  scripts: UserScripts,
): Promise<void> {
  if (dialect.name === "sqlite") return; // a file has no users
  const script = await scripts[dialect.name]();
  for (const text of userStatements(dialect, tables, users, script))
    await driver.query({ ...statement("users", text), unprepared: true }, {});
}

/** What is run, one after the other. */
export function userStatements(
  dialect: Dialect,
  tables: MigrateOptions,
  users: readonly DatabaseUser[],
  text: string,
): readonly string[] {
  const script = withNames(withoutComments(text), dialect, tables);
  return dialect.name === "sqlserver"
    ? users.map((user) => forSqlServer(script, user))
    : [script, ...users.flatMap(forPostgres)];
}

const withoutComments = (script: string): string => script.replace(/^\s*--.*$/gm, "");

/** The scripts have the default names of schema and tables. Names of SQL Server go on as `[Inbox_Claim]` and `[InboxState]`. */
function withNames(script: string, dialect: Dialect, tables: MigrateOptions): string {
  const { defaults } = dialect;
  return chosenQueues(dialect, tables).reduce(
    (text, { kind, schema, table }) =>
      text
        .replaceAll(new RegExp(`(?<=[["])${defaults[kind]}(?=[_"\\]A-Z])`, "g"), table)
        .replaceAll(new RegExp(`(?<=[["])${defaults.schema}(?=[\\]"])`, "g"), schema),
    script,
  );
}

/** The script's own variables, which sqlcmd replaces when it is run by hand. */
const forSqlServer = (script: string, { name, clientId, role }: DatabaseUser): string =>
  script.replaceAll("$(FunctionsUser)", name).replaceAll("$(ClientId)", clientId).replaceAll("$(Role)", role);

/**
 * The label is what Azure signs an identity in by; any database of the server takes it. (The function that does both exists
 * only in the database postgres.) The name and the ids were checked: nothing in them ends a quotation.
 */
const forPostgres = ({ name, objectId, role }: DatabaseUser): readonly string[] => [
  `do $$
begin
  if not exists (select from pg_roles where rolname = '${name}') then
    create role "${name}" login nosuperuser nocreatedb nocreaterole;
  end if;
end
$$`,
  `security label for "pgaadauth" on role "${name}" is 'aadauth,oid=${objectId},type=service'`,
  `grant "${role}" to "${name}"`,
];
