import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, type FSWatcher, watch } from "node:fs";
import { readdir } from "node:fs/promises";
import { dirname, join, relative, resolve } from "node:path";
import { sleep } from "../base/async.js";
import { type CommandInput, exitCodes, UsageError } from "./command.js";
import { text } from "./terminal.js";

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

const isCode = (name: string | null): boolean => name !== null && /\.([cm]?[jt]s|json)$/.test(name);

/** Resolves when a source file of the app's project changes, and is undefined when the signal aborts before. */
async function nextChange(app: string, signal: AbortSignal): Promise<string | undefined> {
  const watchers: FSWatcher[] = [];
  const folders = await foldersUnder(projectOf(app));
  try {
    return await new Promise<string | undefined>((resolve) => {
      if (signal.aborted) return resolve(undefined);
      signal.addEventListener("abort", () => resolve(undefined), { once: true });
      for (const folder of folders) {
        const onChange = (_: string, name: string | null) => {
          if (isCode(name)) resolve(join(folder, name!));
        };
        // a folder may have been removed since it was listed
        watchers.push(watch(folder, onChange).on("error", () => {}));
      }
    });
  } finally {
    for (const watcher of watchers) watcher.close();
  }
}

/** The folder with the package.json above the app, or else the app's own. */
function projectOf(app: string): string {
  const own = dirname(resolve(app));
  for (let folder = own; dirname(folder) !== folder; folder = dirname(folder)) {
    if (existsSync(join(folder, "package.json"))) return folder;
  }
  return own;
}

/** Without installed packages, which do not change, and hidden folders. Each folder is watched by itself: that works everywhere. */
async function foldersUnder(folder: string): Promise<readonly string[]> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => []);
  const inner = entries.filter(
    (entry) => entry.isDirectory() && entry.name !== "node_modules" && !entry.name.startsWith("."),
  );
  const nested = await Promise.all(inner.map(({ name }) => foldersUnder(join(folder, name))));
  return [folder, ...nested.flat()];
}
