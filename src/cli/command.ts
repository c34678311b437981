import { readFile } from "node:fs/promises";
import { type Budget, timeBudget } from "../base/budget.js";

/** One exit code per kind of result, for scripts. */
export const exitCodes = { ok: 0, failed: 1, usage: 2, more: 3, exceeded: 4 } as const;

export const exitCodeMeanings: Readonly<Record<keyof typeof exitCodes, string>> = {
  ok: "done",
  failed: "the command failed; trying again may help",
  usage: "the command line or the configuration is wrong",
  more: "the time is used up and work is left; run it again",
  exceeded: "a limit of the command line is exceeded",
};

/** One per command. */
export interface Command {
  readonly name: string;
  readonly summary: string;
  /** The usage line of the help, after `oncebox`. */
  readonly usage: string;
  readonly options: Readonly<Record<string, Option>>;
  readonly examples: readonly string[];
  /** The largest number of positional arguments. None by default. */
  readonly positionals?: number;
  run(input: CommandInput): Promise<number>;
}

/** An option as `parseArgs` takes it, with its description. */
export interface Option {
  readonly type: "string" | "boolean";
  readonly multiple?: boolean;
  readonly help: string;
}

export const option = (help: string): Option => ({ type: "string", help });
export const flag = (help: string): Option => ({ type: "boolean", help });

export interface CommandInput {
  readonly values: Values;
  readonly positionals: readonly string[];
  readonly terminal: Terminal;
}

export type Values = Readonly<Record<string, string | boolean | readonly string[] | undefined>>;

/** What a command reads and writes besides its arguments. Tests pass their own. */
export interface Terminal {
  readonly env: NodeJS.ProcessEnv;
  /** How to call oncebox here, for suggested commands. `npx oncebox` by default. */
  readonly self?: string;
  readonly isInteractive: boolean;
  out(line: string): void;
  err(line: string): void;
  /** The width of the output, where it is a terminal. */
  readonly columns?: number | undefined;
  /** Replaces the last line of the error output, or clears it. Only an interactive terminal has it. */
  redraw?(text: string): void;
  /** Aborted by Ctrl-C. */
  readonly signal: AbortSignal;
}

/** The command line is wrong. */
export class UsageError extends Error {}

export const jsonOption = { json: flag("print JSON") };

/** Of all commands that open a database. */
export const databaseOptions = {
  app: option("a module whose default export is defineApp({ … })"),
  database: option("a database URL, instead of ONCEBOX_DATABASE_URL"),
  schema: option("the tables' schema"),
  ...jsonOption,
};

/** Of all commands on the messages of one database. */
export const storeOptions = {
  tenant: option("the tenant's id, for an app with tenants"),
  ...databaseOptions,
};

export const timeOption = { time: option("the most seconds to run; 60 by default") };

/** The budget that `--time` gives. Ctrl-C ends it. */
export const budgetOf = ({ values, terminal }: CommandInput): Budget =>
  timeBudget(seconds(values, "time", 60), terminal.signal);

export const text = (values: Values, name: string): string | undefined => values[name] as string | undefined;

/** Returns milliseconds for an option in seconds. */
export function seconds(values: Values, name: string, otherwise: number): number {
  const number = Number(text(values, name) ?? otherwise);
  if (!(number > 0)) throw new UsageError(`--${name} must be a number of seconds greater than 0.`);
  return number * 1000;
}

const unitsMs: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** Returns milliseconds for an option such as `90s`, `15m`, `1h` or `7d`. */
export function duration(values: Values, name: string, otherwise: string): number {
  const [, number, unit] = /^(\d+)([smhd])$/.exec(text(values, name) ?? otherwise) ?? [];
  if (!(Number(number) > 0))
    throw new UsageError(`--${name} must be a number with a unit, such as 90s, 15m, 1h or 7d.`);
  return Number(number) * unitsMs[unit!]!;
}

export function count(values: Values, name: string): number | undefined {
  const value = text(values, name);
  if (value === undefined) return undefined;
  if (!/^\d+$/.test(value)) throw new UsageError(`--${name} must be a whole number.`);
  return Number(value);
}

/** How many lines are printed: 50 by default. A page of none would say that there is more, for ever. */
export function pageSize(values: Values): number {
  const limit = count(values, "limit") ?? 50;
  if (limit === 0) throw new UsageError("--limit must be 1 or more.");
  return limit;
}

export function oneOf<Name extends string>(
  known: readonly Name[],
  value: string | undefined,
  what: string,
): Name {
  const found = known.find((name) => name === value);
  if (found === undefined) throw new UsageError(`${what} must be ${known.join(" or ")}.`);
  return found;
}

/** Reads a file that an option or an argument names. */
export async function readGivenFile(file: string, what = file): Promise<Buffer> {
  return readFile(file).catch(({ code }: NodeJS.ErrnoException) => {
    throw new UsageError(`${what} cannot be read: ${code}.`);
  });
}

/** The value of a variable that an option names. */
export function variableOf(env: NodeJS.ProcessEnv, name: string): string {
  const value = env[name];
  if (!value) throw new UsageError(`The variable ${name} is not set.`);
  return value;
}
