import type { App } from "../app/create-app.js";
import type { MaintenanceReport } from "../app/maintenance-jobs.js";
import { type Budget, timeBudget } from "../base/budget.js";
import type { MaintenanceResult } from "../queue/maintenance.js";
import { type Command, databaseHelp, databaseOptions, exitCodes, seconds } from "./command.js";
import { withExistingDatabase } from "./existing-database.js";
import { withProgress } from "./progress.js";

interface Job {
  readonly name: "reap" | "cleanup";
  readonly summary: string;
  /** What the command did to a queue. */
  readonly did: (result: MaintenanceResult) => string;
}

/** The two scheduled jobs, which differ only in their names. */
const maintenanceCommand = ({ name, summary, did }: Job): Command => ({
  name,
  summary,
  usage: `${name} [--time SECONDS] [options]`,
  options: { ...databaseOptions, time: { type: "string" } },
  help: { time: "the most seconds to run; 60 by default", ...databaseHelp },
  examples: [`oncebox ${name} --database postgres://app@localhost/orders`],
  async run(input) {
    const { values, terminal } = input;
    const budget = timeBudget(seconds(values, "time", 60), terminal.signal);
    return withExistingDatabase(input, async (app) => {
      const report = await withProgress(terminal, name, () => run(app, name, budget));
      const queues = Object.entries(report) as [string, MaintenanceResult][];
      if (values.json) terminal.out(JSON.stringify(report));
      else for (const [queue, result] of queues) terminal.out(`${queue.padEnd(7)} ${did(result)}`);
      return queues.some(([, { more }]) => more) ? exitCodes.more : exitCodes.ok;
    });
  },
});

const run = (app: App, name: Job["name"], budget: Budget): Promise<MaintenanceReport> => app[name](budget);

export const reapCommand = maintenanceCommand({
  name: "reap",
  summary: "end expired leases and expired messages",
  did: ({ done, dead }) => `released ${done}  dead ${dead}`,
});

export const cleanupCommand = maintenanceCommand({
  name: "cleanup",
  summary:
    "delete done messages that are older than the retention, and dead ones where the app has a retention for them",
  did: ({ done, dead }) => `deleted: done ${done}  dead ${dead}`,
});
