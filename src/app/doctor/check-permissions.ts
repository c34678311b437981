import type { Database } from "../../sql/dialect.js";
import type { QueueNames } from "../../sql/names.js";
import type { Finding } from "./finding.js";

/** The connected user, as the database knows it. */
export interface InspectedUser {
  readonly name: string;
  /** It sees the objects that it has no privileges on. */
  readonly seesAll: boolean;
}

export async function inspectUser(
  { dialect, driver }: Database,
  schema: string,
): Promise<InspectedUser | undefined> {
  if (dialect.inspection.user === undefined) return undefined;
  const [row] = await driver.query(dialect.inspection.user, { schema });
  return { name: String(row?.user_name), seesAll: Number(row?.sees_all) === 1 };
}

/** Compares what the user may do with what the functions do. */
export async function checkPermissions(
  { dialect, driver }: Database,
  queue: QueueNames,
  user: InspectedUser | undefined,
): Promise<readonly Finding[]> {
  const { privileges, needed, grant, isName } = dialect.inspection;
  if (privileges === undefined || user === undefined) return [];
  const rows = await driver.query(privileges, { schema: queue.schema });
  const isAllowed = (object: string, privilege: string): boolean =>
    rows.some(
      (row) => isName(String(row.name), object) && row.privilege === privilege && Number(row.allowed) === 1,
    );
  const missing = needed(queue)
    .map(({ object, privileges: all }) => ({
      object,
      privileges: all.filter((privilege) => !isAllowed(object, privilege)),
    }))
    .filter((lacking) => lacking.privileges.length > 0);
  if (missing.length === 0) return [];
  const list = missing.map((lacking) => `${lacking.privileges.join(", ")} on ${lacking.object}`).join("; ");
  const unsure = user.seesAll ? "" : " What it may not use it does not see, so it may also be missing.";
  return [
    {
      check: "permissions",
      level: "problem",
      message: `The user ${user.name} lacks ${list}.${unsure}`,
      run: missing.map((lacking) => grant(queue, lacking, user.name)).join(";\n"),
    },
  ];
}
