import { openDatabase } from "../config/database-url.js";
import { type DatabaseUser, databaseRoles } from "../config/database-users.js";
import { createServiceTables } from "../messaging/service-tables.js";
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
  /** Makes the tables of a service as well: in the app's database, or, for an app with many tenants, in the one of this URL. */
  readonly messaging?: { url(): Promise<string> } | undefined;
}

/**
 * Everything between an empty database and the first message: tables, roles, users and their rights; for many tenants the
 * catalogue first, then the database of each. May be run again, and then does what is new.
 */
export async function prepareDatabases(
  app: Pick<AppJobs, "db" | "tenants" | "migrate" | "migrateOptions">,
  { users, scripts, catalogueUrl, messaging }: PrepareOptions,
): Promise<MigrateResult> {
  const prepareOwn = async (
    db: Database,
    tables: MigrateOptions,
    migrateApp: () => Promise<MigrateResult>,
  ) => {
    const result = await migrateApp();
    const ofMessages = messaging && (await createMessageTables(db, tables));
    await grantUsers(db, tables, users, scripts);
    return ofMessages === undefined ? result : addResults(result, ofMessages);
  };
  const { tenants, migrateOptions } = app;
  if (tenants === undefined) return prepareOwn(app.db, migrateOptions, () => app.migrate());
  // Beside the tenants' databases. Both have oncebox's own tables too, because the roles come with them.
  if (messaging !== undefined)
    await opened(await messaging.url(), (db) => prepareOwn(db, {}, () => migrate(db)));
  if (catalogueUrl !== undefined) {
    await opened(catalogueUrl, async (db) => {
      await migrate(db);
      await grantUsers(db, {}, users, scripts);
      await createCatalogueTable(db);
    });
  }
  await tenants.refresh();
  const result = await app.migrate();
  for (const id of await tenants.distinctStores()) {
    const { db, tables } = await tenants.stores(id);
    await grantUsers(db, tables as MigrateOptions, users, scripts);
  }
  return result;
}

/** The tables of a service with the default names, in the schema of the app's. The script of the users grants rights on them. */
export const createMessageTables = (db: Database, { schema }: MigrateOptions): Promise<MigrateResult> =>
  createServiceTables({ outboxDb: db, inboxDb: db, schema });

export const addResults = (one: MigrateResult, other: MigrateResult): MigrateResult => ({
  applied: [...one.applied, ...other.applied],
  warnings: [...one.warnings, ...other.warnings],
});

async function opened(url: string, work: (db: Database) => Promise<unknown>): Promise<void> {
  const db = await openDatabase(url, { maxConnections: 1 });
  try {
    await work(db);
  } finally {
    await db.close();
  }
}

/** The roles that find tenants. The inbox service has a store of its own with tenants; producers and services know their database. */
const readers = databaseRoles.filter(
  (role) => !["oncebox_service", "oncebox_producers", "oncebox_messaging"].includes(role),
);

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
