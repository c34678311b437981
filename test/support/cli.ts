import type { Terminal } from "../../src/cli/command.js";
import { runCli } from "../../src/cli/run.js";

export interface CliResult {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** Runs the command line as a script would, within this process. */
export const cli = (...args: string[]): Promise<CliResult> => cliWith({}, ...args);

export async function cliWith(env: NodeJS.ProcessEnv, ...args: string[]): Promise<CliResult> {
  const out: string[] = [];
  const err: string[] = [];
  const terminal: Terminal = {
    env,
    isInteractive: false,
    out: (line) => void out.push(line),
    err: (line) => void err.push(line),
    signal: new AbortController().signal,
  };
  const code = await runCli(args, terminal);
  return { code, out: out.join("\n"), err: err.join("\n") };
}
