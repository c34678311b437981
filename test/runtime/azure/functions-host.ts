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
  /** What the host was told to log so far. */
  lines(): readonly HostLine[];
  webhook(request: Request): Promise<Response>;
  run(name: string): Promise<unknown>;
  /** As an instance is taken away: the hooks run, then the process ends. Answers the exit code. */
  terminate(): Promise<number | null>;
  stop(): Promise<void>;
}

/** Starts the function app in a folder in a process of its own, and kills that when a run exceeds its time. */
export async function startFunctionsHost(
  folder: string,
  env: Readonly<Record<string, string>>,
  timeoutMs: number,
): Promise<FunctionsHost> {
  const host = spawn(process.execPath, ["--no-warnings", "--import", tsx, child], {
    cwd: folder,
    env: { ...process.env, AzureFunctionsJobHost__functionTimeout: timeSpan(timeoutMs), ...env },
    stdio: ["ignore", "pipe", "pipe"],
    detached: true, // a group of its own, with whatever it starts
  });
  const kill = () => {
    try {
      process.kill(-host.pid!, "SIGKILL");
    } catch {
      // it has ended
    }
  };
  process.once("exit", kill);
  let errors = "";
  host.stderr.on("data", (chunk) => {
    errors += chunk;
  });
  const ended = once(host, "exit") as Promise<[number | null]>;
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
          // The answer and what was logged before it come by two ways, and either may be the first.
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

/** What an app itself writes to the standard output, the host logs as it is. */
function parsed(text: string): HostLine | Ready {
  if (text.startsWith("{")) return JSON.parse(text) as HostLine | Ready;
  return { level: "information", category: "console", message: text };
}
