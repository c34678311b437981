import type { App } from "../app/create-app.js";
import type { MaintenanceReport } from "../app/maintenance-jobs.js";
import type { Budget } from "../base/budget.js";
import { timeBudget } from "../base/budget.js";
import { type Command, databaseHelp, databaseOptions, exitCodes, seconds } from "./command.js";
import { withExistingDatabase } from "./existing-database.js";
import { withProgress } from "./progress.js";

interface Job {
  readonly name: "reap" | "cleanup";
  readonly summary: string;
  /** The verb of the printed result. */
  readonly did: string;
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
      const queues = Object.entries(report) as [string, MaintenanceReport["inbox"]][];
      if (values.json) terminal.out(JSON.stringify(report));
      else
        for (const [queue, { done, dead }] of queues)
          terminal.out(`${queue.padEnd(7)} ${did} ${done}  dead ${dead}`);
      return queues.some(([, { more }]) => more) ? exitCodes.more : exitCodes.ok;
    });
  },
});

const run = (app: App, name: Job["name"], budget: Budget): Promise<MaintenanceReport> => app[name](budget);

export const reapCommand = maintenanceCommand({
  name: "reap",
  summary: "end expired leases and expired messages",
  did: "released",
});

export const cleanupCommand = maintenanceCommand({
  name: "cleanup",
  summary: "delete Done messages that are older than the retention",
  did: "deleted",
});
