import { appStats } from "../app/app-stats.js";
import { timeBudget } from "../base/budget.js";
import { type Command, databaseHelp, databaseOptions, exitCodes, seconds, UsageError } from "./command.js";
import { withExistingDatabase } from "./existing-database.js";
import { withProgress } from "./progress.js";
import { statusLine } from "./status-line.js";

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
