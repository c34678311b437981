import { type Command, databaseHelp, databaseOptions, exitCodes, UsageError } from "./command.js";
import { withApp } from "./load-app.js";
import { schemaOf } from "./print-schema.js";
import { withProgress } from "./progress.js";

export const migrateCommand: Command = {
  name: "migrate",
  summary: "create or update the tables",
  usage: "migrate [--print [--all]] [options]",
  options: { ...databaseOptions, print: { type: "boolean" }, all: { type: "boolean" } },
  help: {
    print: "print the SQL that the database still needs, for a DBA, instead of running it",
    all: "with --print: print the whole schema, without asking the database",
    ...databaseHelp,
  },
  examples: [
    "oncebox migrate --database postgres://app@localhost/orders",
    "oncebox migrate --print --database postgres://owner@localhost/orders > pending.sql",
    "oncebox migrate --print --all --database mssql://db.example/orders > schema.sql",
  ],
  run: (input) =>
    withApp(input, async (app) => {
      const { values, terminal } = input;
      if (values.all && !values.print) throw new UsageError("--all is for --print.");
      if (values.print) {
        const sql = await schemaOf(app, values.all ? "all" : "pending");
        if (values.json) terminal.out(JSON.stringify({ sql }));
        else if (sql === "") terminal.err("The schema is up to date. --all prints the whole of it.");
        else terminal.out(sql);
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
