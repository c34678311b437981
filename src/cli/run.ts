import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { ArgumentRangeError, InvalidArgumentError } from "../errors.js";
import { backupCommand } from "./backup.js";
import { benchCommand } from "./bench.js";
import { type Command, exitCodes, type Terminal, UsageError, type Values } from "./command.js";
import { completionCommand } from "./completion.js";
import { deadCommand } from "./dead.js";
import { devCommand } from "./dev.js";
import { dispatchCommand } from "./dispatch.js";
import { doctorCommand } from "./doctor.js";
import { commandHelp, overview } from "./help.js";
import { initCommand } from "./init.js";
import { limitCommand } from "./limit.js";
import { listCommand } from "./list.js";
import { listenCommand } from "./listen.js";
import { cleanupCommand, reapCommand } from "./maintenance.js";
import { migrateCommand } from "./migrate.js";
import { packageCommand } from "./package.js";
import { partitionsCommand } from "./partitions.js";
import { pauseCommand, resumeCommand } from "./pause.js";
import { recoverCommand } from "./recover.js";
import { restoreCommand } from "./restore.js";
import { showCommand } from "./show.js";
import { signCommand } from "./sign.js";
import { statusCommand } from "./status.js";
import { traceCommand } from "./trace.js";
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
  completionCommand(() => commands),
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
    terminal.out(overview(commands));
    return first === undefined ? exitCodes.usage : exitCodes.ok;
  }
  const command = commands.find((known) => known.name === name);
  if (command === undefined) {
    terminal.err(`oncebox: there is no command "${name}".\n\n${overview(commands)}`);
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

function parsed(
  command: Command,
  args: readonly string[],
): { values: Values; positionals: readonly string[] } {
  try {
    const { values, positionals } = parseArgs({
      args: [...args],
      options: { ...command.options, help: { type: "boolean", short: "h" } },
      allowPositionals: true,
    });
    const most = command.positionals ?? 0;
    if (positionals.length > most) throw new UsageError(`"${positionals[most]}" is one argument too many.`);
    return { values: values as Values, positionals };
  } catch (error) {
    if (error instanceof UsageError) throw error;
    throw new UsageError((error as Error).message.split(". To specify")[0]!);
  }
}

function complain(command: Command, error: unknown, terminal: Terminal): number {
  const isUsage = [UsageError, InvalidArgumentError, ArgumentRangeError].some(
    (kind) => error instanceof kind,
  );
  const { message, code } = error as { message?: string; code?: string };
  const text = message || code || "failed without an error message"; // a refused connection has a code and no message
  terminal.err(`oncebox ${command.name}: ${text}`);
  if (isUsage) terminal.err(`Try: oncebox ${command.name} --help`);
  return isUsage ? exitCodes.usage : exitCodes.failed;
}
