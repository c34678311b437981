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
        const sql = await schemaOf(app);
        terminal.out(values.json ? JSON.stringify({ sql }) : sql);
        return exitCodes.ok;
      }
      const { applied, warnings } = await withProgress(terminal, "migrating", () => app.migrate());
      if (values.json) terminal.out(JSON.stringify({ applied, warnings }));
      else
        terminal.out(applied.length === 0 ? "The schema is up to date." : `Applied: ${applied.join(", ")}.`);
      for (const warning of warnings) terminal.err(`Warning: ${warning}`);
      return exitCodes.ok;
    }),
};
