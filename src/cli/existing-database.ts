import { existsSync } from "node:fs";
import type { App } from "../app/create-app.js";
import type { Database } from "../sql/dialect.js";
import { sqliteFileOf } from "../sql/sqlite-file-of.js";
import { type CommandInput, UsageError } from "./command.js";
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
