import { escapeControls } from "../base/escape-controls.js";

/** Replaces control characters. A sender chooses ids and errors, and an escape sequence would change the terminal. */
export const printable = (text: string): string =>
  escapeControls(text).replace(/[\n\t]/g, (character) => (character === "\n" ? "\\n" : "\\t"));

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
