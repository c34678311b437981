import { existsSync } from "node:fs";
import { createRequire, register } from "node:module";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { type AppDefinition, type AppParts, defineApp } from "../app/definition.js";
import { type AppJobs, openJobs } from "../app/jobs.js";
import { openApp, type Platform } from "../app/open-app.js";
import { memoisePromise } from "../base/async.js";
import { jsonLogger } from "../base/logger.js";
import { databaseUrlForms } from "../config/database-url.js";
import { type Environment, readEnvironment } from "../config/environment.js";
import {
  requirePackages,
  type SecretReference,
  type SecretResolver,
  secretsFromEnvironment,
} from "../config/secret-reference.js";
import { InvalidArgumentError } from "../errors.js";
import { type OperatedStores, operatedStores, withOperators } from "../operators/operators-of.js";
import type { AnyQueue, QueueKind } from "../queue/work-store.js";
import type { Database } from "../sql/dialect.js";
import { sqliteFileOf } from "../sql/driver.js";
import { type CommandInput, exitCodes, UsageError, type Values } from "./command.js";
import { text } from "./terminal.js";

/** For commands that need the app's jobs. */
export const withApp = (input: CommandInput, work: (app: AppJobs) => Promise<number>): Promise<number> =>
  withOpened(input, openJobs, work);

/**
 * For commands on the messages of one database: the app's, or that of the tenant that `--tenant` names. Without the app's
 * jobs: a command on messages dispatches nothing.
 */
export const withStores = (
  input: CommandInput,
  work: (stores: OperatedStores, db: Database) => Promise<number>,
): Promise<number> =>
  withOpened(input, openApp, async (app) => {
    const stores = await chosenStores(input, app, app.tenants?.stores);
    return work(stores === app ? operatedStores(app.partsFor) : withOperators(stores), stores.db);
  });

/** For commands that do the same with each queue. */
export const withQueues = (
  input: CommandInput,
  kinds: readonly QueueKind[],
  work: (queue: AnyQueue, kind: QueueKind) => Promise<void>,
): Promise<number> =>
  withStores(input, async (stores) => {
    for (const kind of kinds) await work(stores[kind], kind);
    return exitCodes.ok;
  });

/** The stores of the app's database, or of the tenant that `--tenant` names. */
export async function chosenStores(
  { values }: CommandInput,
  parts: AppParts,
  tenants: AppJobs["tenants"],
): Promise<AppParts> {
  const tenant = tenantOf(values, tenants);
  if (tenants !== undefined && tenant === undefined)
    throw new UsageError("This app has tenants. Name one with --tenant ID.");
  const stores = tenants === undefined ? parts : await tenants.find(tenant!);
  if (stores === undefined) throw new InvalidArgumentError(`There is no tenant "${tenant}".`);
  requireDatabaseFile(stores.db);
  return stores;
}

export function tenantOf(values: Values, tenants: AppJobs["tenants"]): string | undefined {
  const tenant = text(values, "tenant");
  if (tenants === undefined && tenant !== undefined)
    throw new UsageError("--tenant is for an app with tenants; this one has none.");
  return tenant;
}

/** SQLite would create a file for a mistyped name. */
export function requireDatabaseFile(db: Database): void {
  const file = sqliteFileOf(db);
  if (file === undefined || existsSync(file)) return;
  throw new UsageError(
    `There is no file ${file}, and none was created. Check the name, or create the database with \`oncebox migrate\`.`,
  );
}

interface Opened {
  readonly db: Database;
  readonly tenants: unknown;
  close(): Promise<void>;
}

/** Logs go to the error output, so that the standard output has only the result. */
async function withOpened<AnyApp extends Opened>(
  input: CommandInput,
  open: (definition: AppDefinition, platform: Platform) => Promise<AnyApp>,
  work: (app: AnyApp) => Promise<number>,
): Promise<number> {
  const { definition, environment } = await definitionFor(input);
  const { env, databaseUrl, logLevel } = environment;
  const app = await open(databaseUrl === undefined ? withDevDatabase(definition) : definition, {
    environment,
    resolveSecret: secretStores(env),
    logger: jsonLogger(env.ONCEBOX_LOG_LEVEL ? logLevel : "warn", input.terminal.err),
  });
  try {
    return await work(app);
  } catch (error) {
    throw app.tenants === undefined ? withDatabase(error, app.db) : error;
  } finally {
    await app.close();
  }
}

/** The database of `oncebox dev` where neither the app nor the environment names one. */
export const devDatabase = "sqlite:oncebox.db";

/** Without a database of its own, the app uses what `oncebox dev` has made in this folder. */
function withDevDatabase(definition: AppDefinition): AppDefinition {
  if ((definition.database ?? definition.tenants) !== undefined) return definition;
  if (existsSync(devDatabase.slice("sqlite:".length))) return { ...definition, database: devDatabase };
  throw new UsageError(
    `There is no database. Set --database or ONCEBOX_DATABASE_URL to ${databaseUrlForms}. Without it the database is ${devDatabase}, which \`oncebox dev\` creates, and this folder has none.`,
  );
}

/** Adds the database's name to a driver's error, which does not have it. */
function withDatabase(error: unknown, { id, dialect }: Database): unknown {
  const { message, code, cause } = error as { message?: string; code?: string; cause?: Error };
  if (cause?.message === "file is not a database")
    return new UsageError(
      `${id} is not a SQLite database. If it was one, it is damaged: restore it from a back-up with \`oncebox restore\`.`,
    );
  if (dialect.classify(error) === "permanent") return error;
  return new Error(
    `${id} does not respond (${message || code}). Check that it is running and that the URL is right.`,
  );
}

/**
 * Without the app, its `deadInPartition` is not known. A dead message then stays in its partition queue, and the app's own
 * reaper removes it where the app says "skip".
 */
const withoutApp: AppDefinition = {
  inbox: { deadInPartition: "block" },
  outbox: { deadInPartition: "block" },
};

/** Returns the app that `--app` names, or an empty one, and the environment with `--database` applied. */
export async function definitionFor({ values, terminal }: CommandInput): Promise<{
  readonly definition: AppDefinition;
  readonly environment: Environment;
}> {
  const database = text(values, "database");
  const env = database === undefined ? terminal.env : { ...terminal.env, ONCEBOX_DATABASE_URL: database };
  const environment = await readEnvironment(env);
  const file = text(values, "app");
  const app = file === undefined ? withoutApp : await loadApp(file);
  const schema = text(values, "schema");
  if (schema === "") throw new UsageError("--schema is empty.");
  return { definition: schema === undefined ? app : { ...app, schema }, environment };
}

/** What Node says of an import or an export in a file that it takes for CommonJS. */
const esModuleInCommonJs = /outside a module|Unexpected token 'export'/;

async function loadApp(file: string): Promise<AppDefinition> {
  runTypeScript(file);
  const module = await import(pathToFileURL(resolve(file)).href).catch((error: unknown) => {
    throw new UsageError(`--app ${file} ${loadProblem(error as NodeJS.ErrnoException)}`);
  });
  if (typeof module.default !== "object" || module.default === null)
    throw new UsageError(`--app ${file} has no default export made by defineApp({ … }).`);
  return defineApp(module.default);
}

function loadProblem({ name, code, message }: NodeJS.ErrnoException): string {
  if (code === "ERR_UNKNOWN_FILE_EXTENSION")
    return "is TypeScript, which this Node cannot run without esbuild. Run: npm install --save-dev esbuild";
  if (name === "SyntaxError" && esModuleInCommonJs.test(message))
    return "is an ES module, and its package.json says that it is not. Run: npm pkg set type=module";
  return `could not be loaded: ${message}`;
}

let isRegistered = false;

/**
 * Lets this process import TypeScript, as esbuild compiles it. Node does so by itself from 22.18 on, but does not find
 * `./file.ts` for an import of `./file.js`. In a clone of the repository tsx does all of it.
 */
function runTypeScript(file: string): void {
  if (isRegistered || !/\.m?ts$/.test(file) || !import.meta.url.endsWith(".js") || !hasEsbuild()) return;
  register("./typescript-hooks.js", import.meta.url);
  isRegistered = true;
}

function hasEsbuild(): boolean {
  try {
    createRequire(import.meta.url).resolve("esbuild");
    return true;
  } catch {
    return false;
  }
}

/** Resolves secrets of the environment and of both clouds' stores, as the deployed functions do. Loads a store's client at its first use. */
export function secretStores(env: NodeJS.ProcessEnv): SecretResolver {
  const aws = memoisePromise(async () =>
    (await import("../adapters/aws/secrets-manager.js")).awsSecrets(env),
  );
  const azure = memoisePromise(async () =>
    (await import("../adapters/azure/key-vault.js")).azureSecrets(env),
  );
  const resolveSecret = async (reference: SecretReference): Promise<string> => {
    if (reference.from === "aws-secrets-manager") return (await aws())(reference);
    if (reference.from === "azure-key-vault") return (await azure())(reference);
    return secretsFromEnvironment(env)(reference);
  };
  return Object.assign(resolveSecret, {
    requirePackages: (reference: SecretReference) =>
      requirePackages(reference, env, ["aws-secrets-manager", "azure-key-vault"]),
  });
}
