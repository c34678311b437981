import type { App } from "../app/create-app.js";
import { InvalidArgumentError } from "../errors.js";
import { type OperatedStores, withOperators } from "../operators/with-operators.js";
import type { Database } from "../sql/dialect.js";
import { type CommandInput, databaseHelp, databaseOptions, text, UsageError } from "./command.js";
import { requireDatabaseFile, withExistingDatabase } from "./existing-database.js";

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
