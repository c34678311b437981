import { readFile } from "node:fs/promises";
import { userInfo } from "node:os";
import { inboxKeyOf, invisible, isOperatorName, keysMeantBy, operatorRule } from "../admin/page/key-text.js";
import { type Budget, timeBudget } from "../base/async.js";
import { omitUndefined } from "../base/defined.js";
import { isGuid } from "../base/uuid.js";
import type { DeadFilter } from "../queue/operators.js";
import { type AnyKey, type QueueKind, queueKinds } from "../queue/work-store.js";
import { type CommandInput, flag, option, type Terminal, UsageError, type Values } from "./command.js";

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

/** The conditions of commands that look for messages, without the state. */
export const filterOptions = {
  queue: option("inbox or outbox; both by default"),
  topic: option("messages of this topic"),
  source: option("messages of this source, in the inbox"),
  error: option("messages whose last error has this text in it"),
  "older-than": option(
    "messages that arrived, or if dead died, longer ago than this, such as 90s, 15m, 1h or 7d",
  ),
  "newer-than": option("messages that arrived, or if dead died, within this time"),
};

export const groupOption = {
  group: option("dead messages of this error group, as `dead groups` prints it"),
};

/** The conditions that the command line gives. `--group` finds dead messages only. */
export function filterOf(values: Values): DeadFilter {
  const group = givenText(values, "group");
  return omitUndefined({
    topic: givenText(values, "topic"),
    source: givenText(values, "source"),
    error: givenText(values, "error"),
    olderThanMs: age(values, "older-than"),
    newerThanMs: age(values, "newer-than"),
    errorGroup: group === noErrorGroup ? "" : group,
  });
}

/** How the group of the messages that died without an error is written. */
const noErrorGroup = "none";

/** An error group as `--group` takes it. */
export const groupName = (errorGroup: string | null): string => errorGroup || noErrorGroup;

const age = (values: Values, name: string): number | undefined =>
  values[name] === undefined ? undefined : duration(values, name, "");

/** An empty text would be found in every error. It comes from a shell's variable that is not set. */
export function givenText(values: Values, name: string): string | undefined {
  if (values[name] === "") throw new UsageError(`--${name} is empty.`);
  return text(values, name);
}

/** The queues that can have such messages: only the inbox has sources. */
export function queuesOf(values: Values): readonly QueueKind[] {
  const chosen = text(values, "queue");
  const queues = chosen === undefined ? queueKinds : [oneOf(queueKinds, chosen, "--queue")];
  if (values.source === undefined) return queues;
  if (!queues.includes("inbox"))
    throw new UsageError("--source is for the inbox: the outbox has no sources.");
  return ["inbox"];
}

export interface MessageKey {
  readonly queue: QueueKind;
  readonly key: AnyKey;
}

export const keyForms = "SOURCE/MESSAGE-ID for the inbox, or the id of an outbox message";

/** Reads KEY, which is what `keyText` writes; with `--source` it is only the message id, as the sender wrote it. */
export function parseKey(argument: string | undefined, values: Values): MessageKey {
  if (argument === undefined || argument === "") throw new UsageError(`KEY is missing: ${keyForms}.`);
  const source = text(values, "source");
  if (source !== undefined) return { queue: "inbox", key: { source, messageId: argument } };
  if (isGuid(argument)) return { queue: "outbox", key: { id: argument.toLowerCase() } };
  const key = inboxKeyOf(argument);
  if (key === undefined) throw new UsageError(problemOf(argument));
  return { queue: "inbox", key };
}

const maxSuggested = 5;

/** A text that could be more than one key is refused: `dead discard` must not guess. */
function problemOf(argument: string): string {
  const meant = keysMeantBy(argument).slice(0, maxSuggested);
  if (meant.length === 0) return `"${argument}" is not a key: it must be ${keyForms}.`;
  return `"${argument}" is not a key: in a name, "/" is written %2F and "%" is written %25. Do you mean ${meant.join(" or ")}? Or give only the message id, and its source with --source.`;
}

export const byOption = {
  by: option("who does it, for the record that `oncebox dead operations` lists; your user name by default"),
};

/** Who does it, for the record: `--by`, else the user of this process. */
export function operatorName(values: Values): string {
  const by = text(values, "by")?.trim() ?? userName();
  if (!isOperatorName(by)) throw new UsageError(`--by ${operatorRule}.`);
  return by;
}

function userName(): string {
  try {
    return userInfo().username;
  } catch {
    throw new UsageError("The user of this process has no name. Say with --by NAME who does it."); // as in some containers
  }
}

/** Prints the result of a command: as JSON with `--json`, and as text for people otherwise. */
export const print = ({ values, terminal }: CommandInput, result: object, text: string): void =>
  terminal.out(values.json ? JSON.stringify(result) : text);

/** The columns of a table by their heads. The last one is cut where the terminal is narrow. */
export type Columns<Item> = Readonly<Record<string, (item: Item) => string | number | Date | null>>;

interface Table<Item> {
  readonly columns: Columns<Item>;
  /** An item as JSON has it. */
  readonly json: (item: Item) => object;
  /** What is printed instead of an empty table. */
  readonly none: string;
}

/** Prints a list: as JSON with one object per line, or as a table. */
export function printTable<Item>(
  { values, terminal }: CommandInput,
  items: readonly Item[],
  { columns, json, none }: Table<Item>,
): void {
  if (values.json) for (const item of items) terminal.out(JSON.stringify(json(item)));
  else if (items.length === 0) terminal.out(none);
  else for (const line of tableLines(columns, items, terminal.columns)) terminal.out(line);
}

/** Lines with aligned columns. Where `width` is known, the last column is cut to fit. */
export function tableLines<Item>(
  columns: Columns<Item>,
  items: readonly Item[],
  width: number | undefined,
): readonly string[] {
  const rows = items.map((item) => Object.values(columns).map((read) => printable(cellText(read(item)))));
  const cells = [Object.keys(columns), ...rows];
  const widths = cells[0]!.map((_, column) => Math.max(...cells.map((row) => row[column]!.length)));
  return cells.map((row) => {
    const text = row
      .map((cell, column) => cell.padEnd(widths[column]!))
      .join("  ")
      .trimEnd();
    return width === undefined || text.length <= width ? text : `${text.slice(0, width - 1)}…`;
  });
}

const cellText = (value: string | number | Date | null): string =>
  value instanceof Date ? value.toISOString() : String(value ?? "");

const everyInvisible = new RegExp(invisible, "gu");

/** Replaces what nobody sees. A sender chooses ids and errors, and an escape sequence would change the terminal. */
export const printable = (text: string): string =>
  text.replace(everyInvisible, (character) => escapes[character] ?? codeOf(character));

const escapes: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };
const codeOf = (character: string): string => `\\u${character.codePointAt(0)!.toString(16).padStart(4, "0")}`;

/** Prints the elapsed time every two seconds on an interactive terminal, and nothing elsewhere. */
export async function withProgress<T>(terminal: Terminal, what: string, work: () => Promise<T>): Promise<T> {
  if (!terminal.isInteractive) return work();
  const start = performance.now();
  const timer = setInterval(() => {
    terminal.err(`${what} … ${Math.round((performance.now() - start) / 1000)} s`);
  }, 2_000);
  try {
    return await work();
  } finally {
    clearInterval(timer);
  }
}

const barWidth = 30;

/** A bar that fills, for an interactive terminal. */
export function progressBar(what: string, done: number, total: number): string {
  const share = total === 0 ? 1 : Math.min(1, done / total); // more may have come since they were counted
  const full = Math.floor(share * barWidth);
  return `${what} [${"#".repeat(full)}${".".repeat(barWidth - full)}] ${Math.floor(share * 100)} % (${done} of ${total})`;
}

/** A shell changes nothing inside single quotes. */
export const quoted = (value: string): string => `'${value.replaceAll("'", "'\\''")}'`;
