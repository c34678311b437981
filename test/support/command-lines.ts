import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { commands } from "../../src/cli/run.js";
import { cli } from "./cli.js";

/** The words of each call of oncebox in a text, without `oncebox` itself, as a shell would split them. */
export const commandLinesIn = (text: string): readonly (readonly string[])[] =>
  [...text.matchAll(/(?<![\w./-])oncebox ((?:[\w./:@=,-]+|"[^"\n]*"|'[^'\n]*'| +(?![#>|&(]))+)/g)].map(
    ([, line]) =>
      [...line!.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g)].map(([, double, single, bare]) =>
        (double ?? single ?? bare)!.replace(/[.,:]$/, ""),
      ),
  );

/** Commands that would make something, or stay: their lines are only parsed. */
const parsedOnly = [
  "init",
  "package",
  "dev",
  "migrate",
  "backup",
  "restore",
  "listen",
  "sign",
  "verify",
  "recover",
];

/** A file that is not there. A command that gets as far as looking for it has accepted its options. */
const nowhere = ["--database", `sqlite:${join(tmpdir(), "oncebox-no-such-folder", "no.db")}`];

/** What is wrong with a command line, or undefined: the command, an option, an argument. */
export async function problemOf(line: readonly string[]): Promise<string | undefined> {
  const [name, ...args] = line;
  const command = commands.find((known) => known.name === name);
  if (command === undefined) return `there is no command "${name}"`;
  try {
    const { positionals } = parseArgs({ args, options: command.options, allowPositionals: true });
    if (positionals.length > (command.positionals ?? 0)) return `${name} takes fewer arguments`;
  } catch (error) {
    return (error as Error).message;
  }
  if (parsedOnly.includes(command.name)) return undefined;
  const { err } = await cli(...line, ...nowhere);
  return /There is no file|--app \S+ could not be loaded/.test(err) ? undefined : err;
}
