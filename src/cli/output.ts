import { invisible } from "../admin/page/key-text.js";
import type { Terminal } from "./command.js";

const everyInvisible = new RegExp(invisible, "gu");

/** Replaces what nobody sees. A sender chooses ids and errors, and an escape sequence would change the terminal. */
export const printable = (text: string): string =>
  text.replace(everyInvisible, (character) => escapes[character] ?? codeOf(character));

const escapes: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };
const codeOf = (character: string): string => `\\u${character.codePointAt(0)!.toString(16).padStart(4, "0")}`;

/** Lines with aligned columns. Where `width` is known, the last column is cut to fit. */
export function tableLines(
  head: readonly string[],
  rows: readonly (readonly string[])[],
  width: number | undefined,
): readonly string[] {
  const cells = [head, ...rows].map((row) => row.map(printable));
  const widths = head.map((_, column) => Math.max(...cells.map((row) => row[column]!.length)));
  const last = head.length - 1;
  return cells.map((row) => {
    const text = row
      .map((cell, column) => (column === last ? cell : cell.padEnd(widths[column]!)))
      .join("  ");
    return width === undefined || text.length <= width ? text.trimEnd() : `${text.slice(0, width - 1)}…`;
  });
}

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

interface ProgressBar {
  /** How much is done now. */
  show(done: number): void;
  /** Removes the bar, so that the result stands alone. */
  end(): void;
}

/** A bar that fills on an interactive terminal, and nothing elsewhere. */
export function progressBar({ redraw }: Terminal, what: string, total: number): ProgressBar {
  const bar = (done: number): string => {
    const share = total === 0 ? 1 : Math.min(1, done / total); // more may have come since they were counted
    const full = Math.floor(share * barWidth);
    return `${what} [${"#".repeat(full)}${".".repeat(barWidth - full)}] ${Math.floor(share * 100)} % (${done} of ${total})`;
  };
  return { show: (done) => redraw?.(bar(done)), end: () => redraw?.("") };
}

/** A shell changes nothing inside single quotes. */
export const quoted = (value: string): string => `'${value.replaceAll("'", "'\\''")}'`;
