import { existsSync } from "node:fs";
import type { App } from "../app/create-app.js";
import { type CommandInput, UsageError } from "./command.js";
import { withApp } from "./load-app.js";

/** For commands that look at what is there: SQLite would make the file whose name was mistyped. */
export const withExistingDatabase = (
  input: CommandInput,
  work: (app: App) => Promise<number>,
): Promise<number> =>
  withApp(input, async (app) => {
    const file = fileOf(app);
    if (file !== undefined && !existsSync(file)) {
      throw new UsageError(
        `There is no file ${file}, and none was made. Is the name right? \`oncebox migrate\` makes a new database.`,
      );
    }
    return work(app);
  });

function fileOf({ db, tenants }: App): string | undefined {
  if (tenants !== undefined || db.dialect.name !== "sqlite") return undefined;
  const file = db.id.slice("sqlite:".length);
  return file === ":memory:" ? undefined : file;
}
