import type { ParseArgsConfig } from "node:util";

/** One exit code per kind of result, for scripts. */
export const exitCodes = {
  ok: 0,
  /** The command failed. */
  failed: 1,
  /** The command line or the configuration is wrong. The same command will fail again. */
  usage: 2,
  /** The time is used up and work is left. Run the command again. */
  more: 3,
  /** A limit of the command line is exceeded. */
  exceeded: 4,
} as const;

type Options = NonNullable<ParseArgsConfig["options"]>;
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

export interface CommandInput {
  readonly values: Values;
  readonly positionals: readonly string[];
  readonly terminal: Terminal;
}

/** One per file in this folder. */
export interface Command {
  readonly name: string;
  readonly summary: string;
  /** The usage line of the help, after `oncebox`. */
  readonly usage: string;
  readonly options: Options;
  /** The description of each option, by name. */
  readonly help: Readonly<Record<string, string>>;
  readonly examples: readonly string[];
  /** The largest number of positional arguments. None by default. */
  readonly positionals?: number;
  run(input: CommandInput): Promise<number>;
}

/** The command line is wrong. */
export class UsageError extends Error {}

/** Options of all commands that open a database. */
export const databaseOptions = {
  app: { type: "string" },
  database: { type: "string" },
  schema: { type: "string" },
  json: { type: "boolean" },
} as const satisfies Options;

export const databaseHelp = {
  app: "a module whose default export is defineApp({ … })",
  database: "a database URL, instead of ONCEBOX_DATABASE_URL",
  schema: "the tables' schema",
  json: "print JSON",
};

export const text = (values: Values, name: string): string | undefined => values[name] as string | undefined;

/** Returns milliseconds for an option in seconds. */
export function seconds(values: Values, name: string, otherwise: number): number {
  const value = text(values, name);
  if (value === undefined) return otherwise * 1000;
  const number = Number(value);
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
