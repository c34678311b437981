import type { ParseArgsConfig } from "node:util";

/** What a script can tell apart. */
export const exitCodes = {
  ok: 0,
  /** It was tried and did not work. */
  failed: 1,
  /** The command line or the configuration is wrong: trying again will not help. */
  usage: 2,
  /** All right so far, but there is more to do: run it again. */
  more: 3,
  /** A limit that was asked for is exceeded. */
  exceeded: 4,
} as const;

type Options = NonNullable<ParseArgsConfig["options"]>;
export type Values = Readonly<Record<string, string | boolean | readonly string[] | undefined>>;

/** The world as a command sees it, so that tests can have one of their own. */
export interface Terminal {
  readonly env: NodeJS.ProcessEnv;
  /** How it is called here, for commands that people are told to try. `npx oncebox` by default. */
  readonly self?: string;
  readonly isInteractive: boolean;
  out(line: string): void;
  err(line: string): void;
  /** Fires at Ctrl-C. */
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
  /** The help's first line, after `oncebox`. */
  readonly usage: string;
  readonly options: Options;
  /** What each option does, by name. */
  readonly help: Readonly<Record<string, string>>;
  readonly examples: readonly string[];
  /** How many positional arguments it takes at most. */
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

/** A duration in seconds, as people type it. */
export function seconds(values: Values, name: string, otherwise: number): number {
  const value = text(values, name);
  if (value === undefined) return otherwise * 1000;
  const number = Number(value);
  if (!(number > 0)) throw new UsageError(`--${name} must be a number of seconds greater than 0.`);
  return number * 1000;
}

export function count(values: Values, name: string): number | undefined {
  const value = text(values, name);
  if (value === undefined) return undefined;
  if (!/^\d+$/.test(value)) throw new UsageError(`--${name} must be a whole number.`);
  return Number(value);
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
