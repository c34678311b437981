import type { App } from "../app/create-app.js";
import type { MaintenanceReport } from "../app/maintenance-jobs.js";
import { appStats } from "../app/stats.js";
import { type Budget, timeBudget } from "../base/budget.js";
import type { MaintenanceResult } from "../queue/maintenance.js";
import { type Command, databaseHelp, databaseOptions, exitCodes, seconds, UsageError } from "./command.js";
import { withExistingDatabase } from "./load-app.js";
import { withProgress } from "./output.js";
import { statusLine } from "./status.js";

export const dispatchCommand: Command = {
  name: "dispatch",
  summary: "handle the due messages, as the scheduled function does, and say what is left",
  usage: "dispatch --once --app FILE [--time SECONDS] [options]",
  options: { ...databaseOptions, once: { type: "boolean" }, time: { type: "string" } },
  help: {
    once: "stop when nothing is left or the time is used up (required; `oncebox dev` runs until it is stopped)",
    time: "the most seconds to run; 60 by default",
    ...databaseHelp,
  },
  examples: ["oncebox dispatch --once --app dist/app.js --time 300"],
  async run(input) {
    const { values, terminal } = input;
    if (!values.once)
      throw new UsageError("dispatch needs --once. To run until it is stopped, use `oncebox dev`.");
    if (values.app === undefined)
      throw new UsageError("dispatch needs --app FILE: the app has the handlers.");
    const budget = timeBudget(seconds(values, "time", 60), terminal.signal);
    return withExistingDatabase(input, async (app) => {
      const report = await withProgress(terminal, "dispatching", () => app.dispatch(budget));
      const { inbox, outbox } = await appStats(app);
      if (values.json) terminal.out(JSON.stringify({ ...report, left: { inbox, outbox } }));
      else {
        for (const name of ["inbox", "outbox"] as const) {
          const result = report[name];
          const text = result === null ? "no handlers" : describe(result);
          terminal.out(`${name.padEnd(7)} ${text}`);
        }
        if (report.tenants !== undefined) terminal.out(`tenants ${describe(report.tenants)}`);
        terminal.out(`Left:\n${statusLine("inbox", inbox)}\n${statusLine("outbox", outbox)}`);
      }
      return report.more ? exitCodes.more : exitCodes.ok;
    });
  },
};

/** What became of the claimed messages. JSON has the names of the API. */
const names: Readonly<Record<string, string>> = {
  acked: "done",
  abandoned: "attempt failed",
  failed: "dead at once",
  released: "given back",
  lost: "lease lost",
};
const reasons: Readonly<Record<string, string>> = {
  drained: "nothing more is due",
  time: "the time is up",
  aborted: "stopped",
};

/** Such as `claimed 5  done 3  attempt failed 2  (nothing more is due)`. Each claimed message is in one of the other numbers. */
function describe(result: object): string {
  const { handled: _, stopped, ...counts } = result as Readonly<Record<string, unknown>>;
  const texts = Object.entries(counts)
    .filter(([name, value]) => value !== 0 || name === "claimed")
    .map(([name, value]) => `${names[name] ?? name} ${value}`);
  if (typeof stopped === "string") texts.push(`(${reasons[stopped]})`);
  return texts.join("  ");
}

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
