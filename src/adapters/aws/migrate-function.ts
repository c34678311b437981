import { createHash, createHmac, pbkdf2Sync, randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import type { AppDefinition } from "../../app/definition.js";
import { appContext, migrateOptionsOf } from "../../app/open-app.js";
import {
  addResults,
  createCatalogueTable,
  createMessageTables,
  grantUsers,
} from "../../app/prepare-databases.js";
import { omitUndefined } from "../../base/defined.js";
import { type OwnerSettings, readOwnerSettings, urlOfUser } from "../../config/aws-settings.js";
import { openDatabase } from "../../config/database-url.js";
import { type Environment, readEnvironment, readMessaging } from "../../config/environment.js";
import type { SecretReference } from "../../config/secret-reference.js";
import { InvalidArgumentError, InvalidOperationError } from "../../errors.js";
import type { Database } from "../../sql/dialect.js";
import { type MigrateOptions, type MigrateResult, migrate } from "../../sql/migrate.js";
import { literal } from "../../sql/names.js";
import { serverOf } from "../../tenants/connections/database-pools.js";
import { type JobFunction, timedFunction } from "./cold-start.js";
import { awsSecrets, isWithoutValue, putSecret } from "./secrets-manager.js";

/** What the migrate function did, beside the migration itself. */
export interface MigrateReport extends MigrateResult {
  /** Whether this run made the functions' user a password, and put the URL with it into their secret. */
  readonly madeUser: boolean;
  /** Whether this run made the catalogue of tenants, and put its URL into its secret. */
  readonly madeCatalogue: boolean;
}

/**
 * Migrates the database as its owner, and grants the functions' user what is new. The first run makes that user and fills the
 * secret with its URL. For an app with many tenants it makes their catalogue, where the stack has one, and migrates the database
 * of each. It may be invoked again at any time. For an invocation at each deployment, before the new version of the other
 * functions.
 *
 * @example
 * export const handler = migrateFunction(app);
 */
export function migrateFunction(definition: AppDefinition): JobFunction<MigrateReport> {
  return timedFunction<MigrateReport>(async () => async () => {
    const environment = await readEnvironment();
    const { databaseUrl, env } = environment;
    const functions = requireAwsSecret(databaseUrl);
    const owner = readOwnerSettings(env);
    const url = await ownerUrl(owner, env);
    const kind = owner.database;
    const script = await usersScript(kind);
    const db = await openDatabase(url, { maxConnections: 1 });
    try {
      const tables = migrateOptionsOf(definition);
      const ofApp = await migrate(db, tables);
      const result = readMessaging(env) ? addResults(ofApp, await createMessageTables(db, tables)) : ofApp;
      const password = (await isWithoutValue(functions.id)) ? newPassword() : undefined;
      await grantFunctionsUser(db, { kind, tables, script, password });
      // Last: whoever finds a URL can sign in with it. A run that dies before makes another password.
      if (password !== undefined)
        await putSecret(functions.id, urlOfUser(owner.url, functionsUsers[kind], password));
      const madeUser = password !== undefined;
      if (definition.tenants === undefined) return { ...result, madeUser, madeCatalogue: false };
      const madeCatalogue = await makeCatalogue(db, owner.catalogue, () => awsSecrets(env)(functions));
      const ofTenants = await migrateTenantDatabases(definition, environment, { url, kind, script });
      return { ...addResults(result, ofTenants), madeUser, madeCatalogue };
    } finally {
      await db.close();
    }
  });
}

/** The owner's password may rotate, so it is read by each run. */
async function ownerUrl({ url, secret }: OwnerSettings, env: NodeJS.ProcessEnv): Promise<string> {
  const resolve = awsSecrets(env);
  const [username, password] = await Promise.all(
    ["username", "password"].map((key) => resolve({ ...secret, key })),
  );
  return urlOfUser(url, username!, password!);
}

function requireAwsSecret(databaseUrl: string | SecretReference | undefined): OwnerSettings["secret"] {
  if (typeof databaseUrl === "object" && databaseUrl.from === "aws-secrets-manager") return databaseUrl;
  throw new InvalidArgumentError(
    'ONCEBOX_DATABASE_URL must name the secret that gets the functions\' URL: {"from": "aws-secrets-manager", "id": …}.',
  );
}

type Kind = OwnerSettings["database"];

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
  await grantUsers(db, omitUndefined(tables), users, { postgres: text, sqlserver: text });
  if (kind === "postgres" && password !== undefined)
    await run(`alter role ${name} password ${literal(scramVerifier(password))}`);
}

/** `oncebox package aws` puts it beside the function. */
async function usersScript(kind: Kind): Promise<string> {
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

/**
 * Makes the table of tenants in the owner's database and fills its secret, where the stack has one that nobody has filled. A
 * catalogue of your own, elsewhere, has a value already.
 */
async function makeCatalogue(
  db: Database,
  secret: string | undefined,
  functionsUrl: () => Promise<string>,
): Promise<boolean> {
  if (secret === undefined || !(await isWithoutValue(secret))) return false;
  await createCatalogueTable(db);
  await putSecret(secret, await functionsUrl());
  return true;
}

interface Owner extends Pick<FunctionsUser, "kind" | "script"> {
  /** With its user. */
  readonly url: string;
}

/**
 * Migrates the databases of all tenants: as the owner those on the owner's server, and with their own users those elsewhere, which
 * must own their tables then. A tenant that fails does not stop the others; the error at the end names it.
 */
async function migrateTenantDatabases(
  definition: AppDefinition,
  environment: Environment,
  owner: Owner,
): Promise<MigrateResult> {
  const { tenants } = appContext(definition, {
    environment,
    resolveSecret: awsSecrets(environment.env),
    signInAs: (url) => (serverOf(url) === serverOf(owner.url) ? ownersUrl(url, owner.url) : url),
  });
  if (tenants === undefined) return { applied: [], warnings: [] };
  try {
    await tenants.stores.refresh();
    const result = await tenants.migrate();
    for (const id of await tenants.stores.distinctStores()) {
      const { db, tables } = await tenants.stores.stores(id);
      if (await isOwner(db, owner)) await grantFunctionsUser(db, { ...owner, tables, password: undefined });
    }
    return result;
  } finally {
    await tenants.close();
  }
}

/** The tenant's database, as the owner. */
function ownersUrl(tenant: string, owner: string): string {
  const target = new URL(owner);
  const [, named] = /(?:^|;)\s*(?:database|initial catalog)\s*=\s*"?([^;"]+)/i.exec(tenant) ?? [];
  target.pathname = named === undefined ? new URL(tenant).pathname : `/${encodeURIComponent(named.trim())}`;
  return target.href;
}

/** Elsewhere the functions sign in as the user that migrated, who needs no grant. */
async function isOwner(db: Database, { url, kind }: Owner): Promise<boolean> {
  const text = `select ${kind === "postgres" ? "current_user" : "suser_name()"} as name`;
  const [row] = await db.driver.query({ name: "who", text, unprepared: true }, {});
  const username = decodeURIComponent(new URL(url).username);
  return String(row?.name).toLowerCase() === username.toLowerCase();
}
