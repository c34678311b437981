import type { AppJobs } from "../app/jobs.js";
import { appStats } from "../app/stats.js";
import type { MaintenanceResult } from "../queue/maintenance.js";
import { type Command, type CommandInput, exitCodes, flag, UsageError } from "./command.js";
import { requireDatabaseFile, withApp } from "./load-app.js";
import { queueLine, statusLine } from "./status.js";
import { budgetOf, databaseOptions, print, timeOption, withProgress } from "./terminal.js";

export const dispatchCommand: Command = {
  name: "dispatch",
  summary: "handle the due messages, as the scheduled function does, and say what is left",
  usage: "dispatch --once --app FILE [--time SECONDS] [options]",
  options: {
    once: flag(
      "stop when nothing is left or the time is used up (required; `oncebox dev` runs until it is stopped)",
    ),
    ...timeOption,
    ...databaseOptions,
  },
  examples: ["oncebox dispatch --once --app dist/app.js --time 300"],
  async run(input) {
    const { values, terminal } = input;
    if (!values.once)
      throw new UsageError("dispatch needs --once. To run until it is stopped, use `oncebox dev`.");
    if (values.app === undefined)
      throw new UsageError("dispatch needs --app FILE: the app has the handlers.");
    const budget = budgetOf(input);
    return withExistingDatabase(input, async (app) => {
      const report = await withProgress(terminal, "dispatching", () => app.dispatch(budget));
      const { inbox, outbox } = await appStats(app);
      const lines = (["inbox", "outbox"] as const).map((name) =>
        queueLine(name, report[name] === null ? "no handlers" : describe(report[name])),
      );
      if (report.tenants !== undefined) lines.push(queueLine("tenants", describe(report.tenants)));
      lines.push("Left:", statusLine("inbox", inbox), statusLine("outbox", outbox));
      print(input, { ...report, left: { inbox, outbox } }, lines.join("\n"));
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

/** The two scheduled jobs, which differ only in their names. */
const maintenanceCommand = (
  name: "reap" | "cleanup",
  summary: string,
  did: (result: MaintenanceResult) => string,
): Command => ({
  name,
  summary,
  usage: `${name} [--time SECONDS] [options]`,
  options: { ...timeOption, ...databaseOptions },
  examples: [`oncebox ${name} --database postgres://app@localhost/orders`],
  async run(input) {
    const budget = budgetOf(input);
    return withExistingDatabase(input, async (app) => {
      const report = await withProgress(input.terminal, name, () => app[name](budget));
      const queues = Object.entries(report) as [string, MaintenanceResult][];
      const lines = queues.map(([queue, result]) => queueLine(queue, did(result)));
      print(input, report, lines.join("\n"));
      return queues.some(([, { more }]) => more) ? exitCodes.more : exitCodes.ok;
    });
  },
});

export const reapCommand = maintenanceCommand(
  "reap",
  "end expired leases and expired messages",
  ({ done, dead }) => `released ${done}  dead ${dead}`,
);

export const cleanupCommand = maintenanceCommand(
  "cleanup",
  "delete done messages that are older than the retention, and dead ones where the app has a retention for them",
  ({ done, dead }) => `deleted: done ${done}  dead ${dead}`,
);

/** Jobs of an app with tenants check each tenant's database themselves. */
const withExistingDatabase = (
  input: CommandInput,
  work: (app: AppJobs) => Promise<number>,
): Promise<number> =>
  withApp(input, async (app) => {
    if (app.tenants === undefined) requireDatabaseFile(app.db);
    return work(app);
  });
