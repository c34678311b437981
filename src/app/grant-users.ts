import type { DatabaseUser } from "../config/database-users.js";
import type { Database } from "../sql/dialect.js";
import { statement } from "../sql/driver.js";
import { chosenQueues, type MigrateOptions } from "../sql/migrate.js";

/** The texts of infra/sql/users-*.sql, which create the roles and say what each may do. */
export interface UserScripts {
  readonly sqlserver: () => Promise<string>;
  readonly postgres: () => Promise<string>;
}

/** Grants the roles their rights on the app's tables, and makes each user a member of its role. May be run again. */
export async function grantUsers(
  db: Database,
  tables: MigrateOptions,
  users: readonly DatabaseUser[],
  scripts: UserScripts,
): Promise<void> {
  const { name: kind } = db.dialect;
  if (kind === "sqlite") return; // a file has no users
  const script = withNames(withoutComments(await scripts[kind]()), db, tables);
  const texts =
    kind === "sqlserver"
      ? users.map((user) => forSqlServer(script, user))
      : [script, ...users.map(forPostgres)];
  for (const text of texts) await db.driver.query({ ...statement("users", text), unprepared: true }, {});
}

const withoutComments = (script: string): string => script.replace(/^\s*--.*$/gm, "");

/** The scripts have the default names of schema and tables. */
function withNames(script: string, { dialect }: Database, tables: MigrateOptions): string {
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

/** The label is what Azure signs an identity in by. Its name and ids were checked: nothing in them ends a quotation. */
const forPostgres = ({ name, objectId, role }: DatabaseUser): string => `do $$
begin
  if not exists (select from pg_roles where rolname = '${name}') then
    create role "${name}" login;
  end if;
  security label for "pgaadauth" on role "${name}" is 'aadauth,oid=${objectId},type=service';
end
$$;
grant "${role}" to "${name}";`;
