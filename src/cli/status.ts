import { appDatabases } from "../app/app-databases.js";
import { appStats } from "../app/app-stats.js";
import type { QueueStats } from "../queue/work-store.js";
import { type Command, count, databaseHelp, databaseOptions, exitCodes, seconds } from "./command.js";
import { requireDatabaseFile, withExistingDatabase } from "./existing-database.js";

export const statusCommand: Command = {
  name: "status",
  summary: "count the messages by state, and show the age of the oldest due message",
  usage: "status [--max-age SECONDS] [--max-dead N] [options]",
  options: { ...databaseOptions, "max-age": { type: "string" }, "max-dead": { type: "string" } },
  help: {
    "max-age": `exit with ${exitCodes.exceeded} when a message has been due for longer than this`,
    "max-dead": `exit with ${exitCodes.exceeded} when there are more dead messages than this`,
    ...databaseHelp,
  },
  examples: ["oncebox status --database sqlite:app.db", "oncebox status --max-age 300 --max-dead 0 --json"],
  run: (input) =>
    withExistingDatabase(input, async (app) => {
      const { values, terminal } = input;
      const maxAgeMs =
        values["max-age"] === undefined ? Number.POSITIVE_INFINITY : seconds(values, "max-age", 0);
      const maxDead = count(values, "max-dead") ?? Number.POSITIVE_INFINITY;
      for (const db of await appDatabases(app)) requireDatabaseFile(db);
      const { inbox, outbox, failed } = await appStats(app);
      if (values.json) terminal.out(JSON.stringify({ inbox, outbox, failed }));
      else for (const [name, stats] of Object.entries({ inbox, outbox })) terminal.out(line(name, stats));
      const tooOld = [inbox, outbox].some((stats) => (stats.oldestDueAgeMs ?? 0) > maxAgeMs);
      const tooMany = inbox.counts.Dead + outbox.counts.Failed > maxDead;
      if (failed !== undefined) {
        terminal.err(`${failed.length} tenants did not respond and are not counted: ${failed.join(", ")}`);
        return exitCodes.failed;
      }
      return tooOld || tooMany ? exitCodes.exceeded : exitCodes.ok;
    }),
};

function line(name: string, { counts, due, oldestDueAgeMs }: QueueStats<string>): string {
  const states = Object.entries(counts).map(([state, number]) => `${state} ${number}`);
  const age = oldestDueAgeMs === null ? "" : `, the oldest for ${Math.round(oldestDueAgeMs / 1000)} s`;
  return `${name.padEnd(7)} ${states.join("  ")}  (due now: ${due}${age})`;
}
