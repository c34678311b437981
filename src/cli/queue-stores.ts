import { existsSync } from "node:fs";
import type { App } from "../app/create-app.js";
import type { AppDefinition } from "../app/definition.js";
import { openApp, type Platform } from "../app/open-app.js";
import { InvalidArgumentError } from "../errors.js";
import { type OperatedStores, withOperators } from "../operators/operators-of.js";
import { sqliteFileOf } from "../sql/database-file.js";
import type { Database } from "../sql/dialect.js";
import { type CommandInput, databaseHelp, databaseOptions, text, UsageError } from "./command.js";
import { withApp, withOpened } from "./load-app.js";

/** For commands that need the app's jobs, and must not create a database. Jobs of an app with tenants check each tenant's database themselves. */
export const withExistingDatabase = (
  input: CommandInput,
  work: (app: App) => Promise<number>,
): Promise<number> => withApp(input, onExistingDatabase(work));

const onExistingDatabase =
  <AnyApp extends Pick<App, "db" | "tenants">>(work: (app: AnyApp) => Promise<number>) =>
  async (app: AnyApp): Promise<number> => {
    if (app.tenants === undefined) requireDatabaseFile(app.db);
    return work(app);
  };

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
  withOpened(
    input,
    openStores,
    onExistingDatabase(async (app) => {
      const stores = await chosenStores(input, app);
      return work(Object.assign(withOperators(stores), { db: stores.db }));
    }),
  );

type Stores = Pick<App, "db" | "inbox" | "outbox" | "tenants">;

/** Without the app's jobs: a command on messages dispatches nothing. */
async function openStores(
  definition: AppDefinition,
  platform: Platform,
): Promise<Stores & Pick<App, "close">> {
  const app = await openApp(definition, platform);
  const { db, inbox, tenants, close } = app;
  return {
    db,
    inbox,
    get outbox() {
      return app.outbox; // which makes it at its first use
    },
    tenants: tenants?.stores,
    close,
  };
}

export async function chosenStores(
  { values }: CommandInput,
  app: Stores,
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
