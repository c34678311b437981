import { spawn } from "node:child_process";
import { once } from "node:events";
import { relative } from "node:path";
import { sleep } from "../base/wait.js";
import { type CommandInput, exitCodes, text, UsageError } from "./command.js";
import { nextChange } from "./watch-files.js";

/** An editor writes a file in several steps. */
const settleMs = 100;

/** Runs `oncebox dev` in a process of its own, and starts it anew when a file of the app's project changes. */
export async function watchDev({ values, terminal }: CommandInput): Promise<number> {
  const app = text(values, "app");
  if (app === undefined) throw new UsageError("--watch needs --app FILE: its files are watched.");
  const { signal } = terminal;
  for (;;) {
    const change = nextChange(app, signal);
    const run = startDev(() => {
      if (!signal.aborted) terminal.err("oncebox dev has ended. It starts again when a file changes.");
    });
    const file = await change.catch(async (error: Error) => {
      await run.stop();
      throw error;
    });
    if (file !== undefined) {
      terminal.out(`${relative("", file)} has changed.`);
      await sleep(settleMs, signal).catch(() => {});
    }
    const code = await run.stop();
    if (signal.aborted) return code;
  }
}

function startDev(onEnd: () => void): { stop(): Promise<number> } {
  const [node = process.execPath, main = "", ...args] = process.argv;
  const own = args.filter((arg) => arg !== "--watch");
  const child = spawn(node, [...process.execArgv, main, ...own], { stdio: "inherit" });
  const ended = once(child, "exit");
  let isStopping = false;
  void ended.then(() => {
    if (!isStopping) onEnd();
  });
  return {
    /** A process that has had a Ctrl-C already takes this one for the same. */
    async stop(): Promise<number> {
      isStopping = true;
      if (child.exitCode === null && child.signalCode === null) child.kill("SIGTERM");
      const [code] = await ended;
      return typeof code === "number" ? code : exitCodes.failed;
    },
  };
}
