import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { ArgumentRangeError, InvalidArgumentError } from "../errors.js";
import { backupCommand, restoreCommand } from "./backup.js";
import { benchCommand } from "./bench.js";
import {
  type Command,
  exitCodeMeanings,
  exitCodes,
  type Terminal,
  UsageError,
  type Values,
} from "./command.js";
import { limitCommand, pauseCommand, resumeCommand } from "./controls.js";
import { deadCommand } from "./dead.js";
import { devCommand } from "./dev.js";
import { doctorCommand } from "./doctor.js";
import { initCommand } from "./init.js";
import { cleanupCommand, dispatchCommand, reapCommand } from "./jobs.js";
import { listenCommand } from "./listen.js";
import { listCommand, showCommand, traceCommand } from "./messages.js";
import { migrateCommand } from "./migrate.js";
import { packageCommand } from "./package.js";
import { recoverCommand } from "./recover.js";
import { signCommand } from "./sign.js";
import { partitionsCommand, statusCommand } from "./status.js";
import { verifyCommand } from "./verify.js";

export const commands: readonly Command[] = [
  initCommand,
  packageCommand,
  devCommand,
  migrateCommand,
  statusCommand,
  listCommand,
  showCommand,
  deadCommand,
  pauseCommand,
  resumeCommand,
  limitCommand,
  traceCommand,
  partitionsCommand,
  doctorCommand,
  benchCommand,
  dispatchCommand,
  reapCommand,
  cleanupCommand,
  backupCommand,
  restoreCommand,
  listenCommand,
  signCommand,
  verifyCommand,
  recoverCommand,
];

/** Runs the command that `args` name and returns the exit code. Prints errors to the error output. */
export async function runCli(args: readonly string[], terminal: Terminal): Promise<number> {
  const [first, ...rest] = args;
  if (first === "--version") {
    terminal.out(version());
    return exitCodes.ok;
  }
  const wantsHelp = first === undefined || ["help", "--help", "-h"].includes(first);
  const name = wantsHelp ? rest[0] : first;
  if (name === undefined) {
    terminal.out(overview());
    return first === undefined ? exitCodes.usage : exitCodes.ok;
  }
  const command = commands.find((known) => known.name === name);
  if (command === undefined) {
    terminal.err(`oncebox: there is no command "${name}".\n\n${overview()}`);
    return exitCodes.usage;
  }
  try {
    const { values, positionals } = parsed(command, wantsHelp ? [] : rest);
    if (values.help || wantsHelp) {
      terminal.out(commandHelp(command));
      return exitCodes.ok;
    }
    return await command.run({ values, positionals, terminal });
  } catch (error) {
    return complain(command, error, terminal);
  }
}

function version(): string {
  const manifest = readFileSync(new URL("../../package.json", import.meta.url), "utf8");
  return (JSON.parse(manifest) as { version: string }).version;
}

function parsed({ options, positionals: most = 0 }: Command, args: readonly string[]) {
  const all = { ...options, help: { type: "boolean", short: "h" } } as const;
  try {
    const { values, positionals } = parseArgs({ args: [...args], options: all, allowPositionals: true });
    if (positionals.length > most) throw new Error(`"${positionals[most]}" is an unexpected argument.`);
    return { values: values as Values, positionals };
  } catch (error) {
    throw new UsageError((error as Error).message.split(". To specify")[0]!);
  }
}

function complain({ name }: Command, error: unknown, terminal: Terminal): number {
  const isUsage = [UsageError, InvalidArgumentError, ArgumentRangeError].some(
    (kind) => error instanceof kind,
  );
  const { message, code } = error as { message?: string; code?: string };
  const text = message || code || "failed without an error message"; // a refused connection has a code and no message
  terminal.err(`oncebox ${name}: ${text}`);
  if (isUsage) terminal.err(`Try: oncebox ${name} --help`);
  return isUsage ? exitCodes.usage : exitCodes.failed;
}

const overview = (): string =>
  [
    "oncebox: a reliable inbox and outbox on the SQL database you already have",
    "",
    "Usage: oncebox COMMAND [options]",
    "",
    ...commands.map(({ name, summary }) => `  ${name.padEnd(10)} ${summary}`),
    "",
    "oncebox COMMAND --help describes a command. oncebox --version prints the version.",
  ].join("\n");

function commandHelp({ name, summary, usage, options, examples }: Command): string {
  const described = Object.entries(options).map(([option, { type, help }]) => {
    const spelled = `--${option}${type === "string" ? ` ${option.toUpperCase()}` : ""}`;
    return `  ${spelled.padEnd(28)} ${help}`;
  });
  const codes = Object.entries(exitCodeMeanings).map(
    ([kind, meaning]) => `  ${exitCodes[kind as keyof typeof exitCodes]}  ${meaning}`,
  );
  return [
    `${name}: ${summary}`,
    "",
    `Usage: oncebox ${usage}`,
    "",
    ...described,
    "",
    "Examples:",
    ...examples.map((example) => `  ${example}`),
    "",
    "Exit codes:",
    ...codes,
  ].join("\n");
}

/** npm passes a Ctrl-C on to a process that has had it from the terminal already. Those two are one. */
const samePressMs = 250;

/** Aborts at the first Ctrl-C, so that running work finishes. The second one ends the process at once. */
export function stopSignals(): AbortController {
  const stopping = new AbortController();
  let firstAt = 0;
  const numbers = { SIGINT: 2, SIGTERM: 15 } as const;
  for (const [signal, number] of Object.entries(numbers)) {
    process.on(signal, () => {
      if (!stopping.signal.aborted) {
        firstAt = performance.now();
        stopping.abort();
      } else if (performance.now() - firstAt > samePressMs) process.exit(128 + number);
    });
  }
  return stopping;
}

/** What the command line uses knowingly. Other warnings are printed. */
const expected = /SQLite is an experimental|Type Stripping is an experimental/;

/** Node calls `process.emitWarning` for them, before any listener could say no. */
export function dropExperimentalWarnings(): void {
  const emit = process.emitWarning;
  process.emitWarning = ((warning: string | Error, ...rest: unknown[]) => {
    const text = typeof warning === "string" ? warning : warning.message;
    if (!expected.test(text)) Reflect.apply(emit, process, [warning, ...rest]);
  }) as typeof emit;
}
