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
