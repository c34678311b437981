import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

const child = fileURLToPath(new URL("functions-host-child.ts", import.meta.url));
const tsx = new URL("../../../node_modules/tsx/dist/esm/index.mjs", import.meta.url).href;

export interface HostLine {
  readonly level: string;
  readonly category: string;
  readonly message: string;
  readonly invocationId?: string;
}

export interface FunctionsHost {
  readonly url: string;
  /** The functions' triggers, by name. */
  readonly functions: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
  /** The log lines so far. */
  lines(): readonly HostLine[];
  webhook(request: Request): Promise<Response>;
  run(name: string): Promise<unknown>;
  /** Removes the instance: the hooks run, then the process ends. Returns the exit code. */
  terminate(): Promise<number | null>;
  stop(): Promise<void>;
}

/** Starts the function app of a folder in a process of its own, and kills the process when a run exceeds its time. */
export async function startFunctionsHost(
  folder: string,
  env: Readonly<Record<string, string>>,
  timeoutMs: number,
): Promise<FunctionsHost> {
  const host = spawn(process.execPath, ["--no-warnings", "--import", tsx, child], {
    cwd: folder,
    env: { ...process.env, AzureFunctionsJobHost__functionTimeout: timeSpan(timeoutMs), ...env },
    stdio: ["ignore", "pipe", "pipe"],
    detached: true, // a process group of its own, with its children
  });
  const kill = () => {
    try {
      process.kill(-host.pid!, "SIGKILL");
    } catch {
      // the process has ended
    }
  };
  process.once("exit", kill);
  let errors = "";
  host.stderr.on("data", (chunk) => {
    errors += chunk;
  });
  // at "exit" the last of its output may not have been read
  const ended = once(host, "close") as Promise<[number | null]>;
  const lines: HostLine[] = [];
  const { listening, functions } = await new Promise<Ready>((resolve, reject) => {
    createInterface(host.stdout).on("line", (text) => {
      const line = parsed(text);
      if ("listening" in line) resolve(line);
      else lines.push(line);
    });
    ended.then(() => reject(new Error(`The host did not start:\n${errors}`)));
  });
  return {
    url: listening,
    functions,
    lines: () => lines,
    webhook(request) {
      const { pathname, search } = new URL(request.url);
      return fetch(new Request(listening + pathname + search, request));
    },
    async run(name) {
      const timer = setTimeout(kill, timeoutMs);
      const known = lines.length;
      try {
        const answer = await fetch(`${listening}/admin/functions/${name}`, { method: "POST" });
        if (answer.status !== 200) {
          // The response and the log lines before it arrive on two channels, in any order.
          while (lines.length === known && host.exitCode === null) await sleep(5);
          throw new Error(`${name} failed: ${lines.at(-1)?.message}`);
        }
        return await answer.json();
      } finally {
        clearTimeout(timer);
      }
    },
    async terminate() {
      host.kill("SIGTERM");
      return (await ended)[0];
    },
    async stop() {
      process.off("exit", kill);
      kill();
      await ended;
    },
  };
}

interface Ready {
  readonly listening: string;
  readonly functions: FunctionsHost["functions"];
}

const timeSpan = (ms: number): string => new Date(ms).toISOString().slice(11, 19);

/** The host logs the app's standard output unchanged. */
function parsed(text: string): HostLine | Ready {
  if (text.startsWith("{")) return JSON.parse(text) as HostLine | Ready;
  return { level: "information", category: "console", message: text };
}
