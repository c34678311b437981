import { createHash, createHmac, pbkdf2Sync, randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { grantUsers } from "../../app/grant-users.js";
import { defined } from "../../base/defined.js";
import { InvalidOperationError } from "../../errors.js";
import type { Database } from "../../sql/dialect.js";
import { literal } from "../../sql/literal.js";
import type { MigrateOptions } from "../../sql/migrate.js";

type Kind = "postgres" | "sqlserver";

const role = "oncebox_functions";

/** The user that the functions sign in with. On PostgreSQL it is the role itself; on SQL Server the two need two names. */
export const functionsUsers: Readonly<Record<Kind, string>> = { postgres: role, sqlserver: "oncebox_app" };

interface FunctionsUser {
  readonly kind: Kind;
  /** Where the app's tables are. */
  readonly tables: { readonly [Name in keyof MigrateOptions]: MigrateOptions[Name] | undefined };
  /** infra/sql/users-*.sql */
  readonly script: string;
  /** Undefined when the user keeps the one it has. */
  readonly password: string | undefined;
}

/** Has what password policies ask for: upper and lower case, digits and another sign. */
export const newPassword = (): string => `Aa1-${randomBytes(24).toString("base64url")}`;

/** Makes the user that the functions sign in with, gives it the password if there is one, and grants it what is new. */
export async function grantFunctionsUser(
  db: Database,
  { kind, tables, script, password }: FunctionsUser,
): Promise<void> {
  const run = (text: string) => db.driver.query({ name: "users", text, unprepared: true }, {});
  if (kind === "sqlserver" && password !== undefined) await run(loginWith(password));
  const name = functionsUsers[kind];
  const users = kind === "sqlserver" ? [{ name, role, clientId: "none", objectId: "none" } as const] : [];
  const text = async () => script;
  await grantUsers(db, defined(tables), users, { postgres: text, sqlserver: text });
  if (kind === "postgres" && password !== undefined)
    await run(`alter role ${name} password ${literal(scramVerifier(password))}`);
}

/** `oncebox package aws` puts it beside the function. */
export async function usersScript(kind: Kind): Promise<string> {
  try {
    return await readFile(new URL(`migrate.users-${kind}.sql`, import.meta.url), "utf8");
  } catch {
    throw new InvalidOperationError(
      `The archive has no migrate.users-${kind}.sql. Package the function with infra/sql/users-${kind}.sql in the project and --database ${kind}.`,
    );
  }
}

/** SQL Server keeps passwords of these statements out of its traces. */
const loginWith = (password: string, name = functionsUsers.sqlserver): string =>
  `if suser_id(N'${name}') is null create login [${name}] with password = N${literal(password)};
else alter login [${name}] with password = N${literal(password)};`;

/** What PostgreSQL would store. The password itself is not in a statement, which a server may log. */
export function scramVerifier(password: string, salt: Buffer = randomBytes(16), iterations = 4_096): string {
  const salted = pbkdf2Sync(password, salt, iterations, 32, "sha256");
  const keyed = (text: string) => createHmac("sha256", salted).update(text).digest();
  const stored = createHash("sha256").update(keyed("Client Key")).digest("base64");
  return `SCRAM-SHA-256$${iterations}:${salt.toString("base64")}$${stored}:${keyed("Server Key").toString("base64")}`;
}
