import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const run = promisify(execFile);

/** Runs a TypeScript file of test/runtime in a process of its own; returns what it printed last, as JSON. */
export async function runChild<T>(file: string, ...args: string[]): Promise<T> {
  const path = fileURLToPath(new URL(`../runtime/${file}`, import.meta.url));
  const { stdout } = await run(process.execPath, ["--no-warnings", "--import", "tsx", path, ...args], {
    maxBuffer: 1 << 26,
  });
  return JSON.parse(stdout.trim().split("\n").at(-1)!) as T;
}
