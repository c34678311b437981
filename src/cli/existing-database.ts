import { existsSync } from "node:fs";
import type { App } from "../app/create-app.js";
import type { Database } from "../sql/dialect.js";
import { type CommandInput, UsageError } from "./command.js";
import { withApp } from "./load-app.js";

/** For commands that work on what is there. Jobs over many tenants find out by themselves, one tenant at a time. */
export const withExistingDatabase = (
  input: CommandInput,
  work: (app: App) => Promise<number>,
): Promise<number> =>
  withApp(input, async (app) => {
    if (app.tenants === undefined) requireFile(app.db);
    return work(app);
  });

/** SQLite would make the file whose name was mistyped. */
export function requireFile({ id, dialect }: Database): void {
  const file = id.slice("sqlite:".length);
  if (dialect.name !== "sqlite" || file === ":memory:" || existsSync(file)) return;
  throw new UsageError(
    `There is no file ${file}, and none was made. Is the name right? \`oncebox migrate\` makes a new database.`,
  );
}
