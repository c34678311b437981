import { type ChildProcess, spawn } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { vi } from "vitest";

const root = fileURLToPath(new URL("../..", import.meta.url));

export interface Dev {
  readonly child: ChildProcess;
  readonly url: string;
  output(): string;
  /** Ctrl-C; returns the exit code. */
  stop(): Promise<number | null>;
}

/** The command line in a process of its own. */
export function cli(args: readonly string[], cwd: string, env: NodeJS.ProcessEnv = {}) {
  const tsx = join(root, "node_modules/tsx/dist/esm/index.mjs");
  return spawn(process.execPath, ["--import", tsx, join(root, "src/cli/main.ts"), ...args], {
    cwd,
    env: { ...process.env, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
}

/** `oncebox dev` as a user would start it. */
export async function startDev(
  args: readonly string[],
  cwd: string,
  env: NodeJS.ProcessEnv = {},
): Promise<Dev> {
  const child = cli(["dev", "--port", "0", ...args], cwd, env);
  let output = "";
  child.stdout.on("data", (data) => {
    output += data;
  });
  child.stderr.on("data", (data) => {
    output += data;
  });
  const ended = new Promise<number | null>((resolve) => child.once("exit", (code) => resolve(code)));
  const listening = vi.waitFor(() => {
    const url = /listens at (\S+),/.exec(output)?.[1];
    if (url === undefined) throw new Error(`oncebox dev does not listen: ${output}`);
    return url;
  }, 60_000);
  const url = await Promise.race([ended.then(() => Promise.reject(new Error(output))), listening]);
  return {
    child,
    url,
    output: () => output,
    stop() {
      child.kill("SIGINT");
      return ended;
    },
  };
}
