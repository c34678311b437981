import { type Command, databaseHelp, databaseOptions, exitCodes } from "./command.js";
import { withApp } from "./load-app.js";
import { schemaOf } from "./print-schema.js";
import { withProgress } from "./progress.js";

export const migrateCommand: Command = {
  name: "migrate",
  summary: "create or update the tables",
  usage: "migrate [--print] [options]",
  options: { ...databaseOptions, print: { type: "boolean" } },
  help: { print: "print the SQL for a DBA instead of running it", ...databaseHelp },
  examples: [
    "oncebox migrate --database postgres://app@localhost/orders",
    "oncebox migrate --print --database mssql://db.example/orders > schema.sql",
  ],
  run: (input) =>
    withApp(input, async (app) => {
      const { values, terminal } = input;
      if (values.print) {
        terminal.out(await schemaOf(app));
        return exitCodes.ok;
      }
      const result = await withProgress(terminal, "migrating", () => app.migrate());
      const { applied, warnings = [] } = result;
      if (values.json) terminal.out(JSON.stringify(result));
      else
        for (const line of [
          applied.length === 0 ? "The schema is up to date." : `Applied: ${applied.join(", ")}.`,
          ...warnings,
        ])
          terminal.out(line);
      return exitCodes.ok;
    }),
};
