import { invisible } from "../admin/page/key-text.js";
import type { CommandInput, Terminal } from "./command.js";

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
