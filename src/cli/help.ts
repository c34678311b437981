import { type Command, exitCodes } from "./command.js";

export const overview = (commands: readonly Command[]): string =>
  [
    "oncebox: a reliable inbox and outbox on the SQL database you already have",
    "",
    "Usage: oncebox COMMAND [options]",
    "",
    ...commands.map(({ name, summary }) => `  ${name.padEnd(10)} ${summary}`),
    "",
    "oncebox COMMAND --help describes a command. oncebox --version prints the version.",
  ].join("\n");

export function commandHelp(command: Command): string {
  const options = Object.entries(command.options).map(([name, { type }]) => {
    const flag = `--${name}${type === "string" ? ` ${name.toUpperCase()}` : ""}`;
    return `  ${flag.padEnd(28)} ${command.help[name] ?? ""}`.trimEnd();
  });
  const codes = Object.entries(meanings).map(([code, meaning]) => `  ${code}  ${meaning}`);
  return [
    `${command.name}: ${command.summary}`,
    "",
    `Usage: oncebox ${command.usage}`,
    "",
    ...options,
    "",
    "Examples:",
    ...command.examples.map((example) => `  ${example}`),
    "",
    "Exit codes:",
    ...codes,
  ].join("\n");
}

const meanings: Readonly<Record<number, string>> = {
  [exitCodes.ok]: "done",
  [exitCodes.failed]: "the command failed; trying again may help",
  [exitCodes.usage]: "the command line or the configuration is wrong",
  [exitCodes.more]: "the time is used up and work is left; run it again",
  [exitCodes.exceeded]: "a limit of the command line is exceeded",
};
