import type { AppDefinition } from "../../app/app-definition.js";
import { migrateOptionsOf } from "../../app/migrate-options.js";
import { readEnvironment } from "../../config/environment.js";
import { openDatabase } from "../../config/open-database.js";
import { type OwnerSettings, readOwnerSettings, urlOfUser } from "../../config/owner-settings.js";
import type { SecretReference } from "../../config/secret-reference.js";
import { InvalidArgumentError } from "../../errors.js";
import { type MigrateResult, migrate } from "../../sql/migrate.js";
import { functionsUsers, grantFunctionsUser, newPassword, usersScript } from "./functions-user.js";
import { makeCatalogue, migrateTenantDatabases } from "./migrate-tenants.js";
import { awsSecrets, isWithoutValue, putSecret } from "./secrets-manager.js";
import { type JobFunction, timedFunction } from "./timed-function.js";

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
  return timedFunction(async () => async () => {
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
      const result = await migrate(db, tables);
      const password = (await isWithoutValue(functions.id)) ? newPassword() : undefined;
      await grantFunctionsUser(db, { kind, tables, script, password });
      // Last: whoever finds a URL can sign in with it. A run that dies before makes another password.
      if (password !== undefined)
        await putSecret(functions.id, urlOfUser(owner.url, functionsUsers[kind], password));
      const madeUser = password !== undefined;
      if (definition.tenants === undefined) return { ...result, madeUser, madeCatalogue: false };
      const madeCatalogue = await makeCatalogue(db, owner.catalogue, () => awsSecrets(env)(functions));
      const ofTenants = await migrateTenantDatabases(definition, environment, { url, kind, script });
      return { ...joined(result, ofTenants), madeUser, madeCatalogue };
    } finally {
      await db.close();
    }
  });
}

const joined = (one: MigrateResult, other: MigrateResult): MigrateResult => ({
  applied: [...one.applied, ...other.applied],
  warnings: [...one.warnings, ...other.warnings],
});

/** The owner's password may rotate, so it is read by each run. */
async function ownerUrl({ url, secret }: OwnerSettings, env: NodeJS.ProcessEnv): Promise<string> {
  const resolve = awsSecrets(env);
  const [username, password] = await Promise.all(
    ["username", "password"].map((key) => resolve({ ...secret, key })),
  );
  return urlOfUser(url, username!, password!);
}

type AwsSecret = Extract<SecretReference, { from: "aws-secrets-manager" }>;

function requireAwsSecret(databaseUrl: string | SecretReference | undefined): AwsSecret {
  if (typeof databaseUrl === "object" && databaseUrl.from === "aws-secrets-manager") return databaseUrl;
  throw new InvalidArgumentError(
    'ONCEBOX_DATABASE_URL must name the secret that gets the functions\' URL: {"from": "aws-secrets-manager", "id": …}.',
  );
}
