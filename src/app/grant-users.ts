import type { DatabaseUser } from "../config/database-users.js";
import type { Database, Dialect } from "../sql/dialect.js";
import { statement } from "../sql/driver.js";
import { chosenQueues, type MigrateOptions } from "../sql/migrate.js";

/** The texts of infra/sql/users-*.sql, which create the roles and say what each may do. */
export interface UserScripts {
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
 * The label is what Azure signs an identity in by; any database of the server takes it. (The function that does both exists in
 * the database postgres alone.) The name and the ids were checked: nothing in them ends a quotation.
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
