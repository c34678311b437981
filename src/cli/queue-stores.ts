import { existsSync } from "node:fs";
import type { App } from "../app/create-app.js";
import { InvalidArgumentError } from "../errors.js";
import { type OperatedStores, withOperators } from "../operators/operators-of.js";
import { sqliteFileOf } from "../sql/database-file.js";
import type { Database } from "../sql/dialect.js";
import { type CommandInput, databaseHelp, databaseOptions, text, UsageError } from "./command.js";
import { withApp } from "./load-app.js";

/** For commands that must not create a database. Jobs of an app with tenants check each tenant's database themselves. */
export const withExistingDatabase = (
  input: CommandInput,
  work: (app: App) => Promise<number>,
): Promise<number> =>
  withApp(input, async (app) => {
    if (app.tenants === undefined) requireDatabaseFile(app.db);
    return work(app);
  });

/** SQLite would create a file for a mistyped name. */
export function requireDatabaseFile(db: Database): void {
  const file = sqliteFileOf(db);
  if (file === undefined || existsSync(file)) return;
  throw new UsageError(
    `There is no file ${file}, and none was created. Check the name, or create the database with \`oncebox migrate\`.`,
  );
}

export interface QueueStores extends OperatedStores {
  readonly db: Database;
}

export const storeOptions = { ...databaseOptions, tenant: { type: "string" } } as const;
export const storeHelp = { tenant: "the tenant's id, for an app with tenants", ...databaseHelp };

/** For commands on the messages of one database: the app's, or that of the tenant that `--tenant` names. */
export const withStores = (
  input: CommandInput,
  work: (stores: QueueStores) => Promise<number>,
): Promise<number> =>
  withExistingDatabase(input, async (app) => {
    const stores = await chosenStores(input, app);
    return work({ db: stores.db, ...withOperators(stores) });
  });

export async function chosenStores(
  { values }: CommandInput,
  app: App,
): Promise<Pick<App, "db" | "inbox" | "outbox">> {
  const tenant = text(values, "tenant");
  if (app.tenants === undefined) {
    if (tenant !== undefined) throw new UsageError("--tenant is for an app with tenants; this one has none.");
    return app;
  }
  if (tenant === undefined) throw new UsageError("This app has tenants. Name one with --tenant ID.");
  const stores = await app.tenants.find(tenant);
  if (stores === undefined) throw new InvalidArgumentError(`There is no tenant "${tenant}".`);
  requireDatabaseFile(stores.db);
  return stores;
}
