import { writeFile } from "node:fs/promises";

export type Target = { readonly atLeast: number } | { readonly atMost: number };

export interface ResultRow {
  readonly name: string;
  readonly database: string;
  /** What oncebox did, in `unit`. This and the other numbers are NaN where they could not be measured. */
  readonly rate: number;
  readonly unit: string;
  readonly referenceRate: number;
  readonly ratio: number;
  /** What the ratio is to. */
  readonly ratioTo: string;
  readonly spread: number;
  readonly target?: Target;
}

/** The numbers of a row whose reference cannot be had here. */
export const notMeasured = {
  rate: Number.NaN,
  referenceRate: Number.NaN,
  ratio: Number.NaN,
  spread: Number.NaN,
} as const;

const headings = [
  "scenario",
  "database",
  "oncebox",
  "reference",
  "unit",
  "ratio",
  "spread",
  "target",
  "",
  "ratio to",
];
/** Numbers to the right, words to the left. */
const rightAligned = new Set([2, 3, 5, 6]);

export function formatTable(rows: readonly ResultRow[]): string {
  const lines = [headings, ...rows.map(cells)];
  const widths = headings.map((_, column) => Math.max(...lines.map((line) => line[column]!.length)));
  const format = (line: readonly string[]) =>
    line
      .map((cell, column) =>
        rightAligned.has(column) ? cell.padStart(widths[column]!) : cell.padEnd(widths[column]!),
      )
      .join("  ")
      .trimEnd();
  return [
    format(headings),
    widths.map((width) => "-".repeat(width)).join("  "),
    ...rows.map((row) => format(cells(row))),
  ].join("\n");
}

function cells(row: ResultRow): readonly string[] {
  return [
    row.name,
    row.database,
    formatRate(row.rate),
    formatRate(row.referenceRate),
    row.unit,
    Number.isNaN(row.ratio) ? "–" : row.ratio.toFixed(2),
    Number.isNaN(row.spread) ? "–" : `${(row.spread * 100).toFixed(0)}%`,
    row.target === undefined ? "" : formatTarget(row.target),
    row.target === undefined || Number.isNaN(row.ratio)
      ? ""
      : isMet(row.target, row.ratio)
        ? "met"
        : "MISSED",
    row.ratioTo,
  ];
}

const formatRate = (rate: number): string =>
  Number.isNaN(rate) ? "–" : rate.toLocaleString("en-US", { maximumFractionDigits: rate < 100 ? 2 : 0 });

const formatTarget = (target: Target): string =>
  "atLeast" in target ? `≥ ${target.atLeast.toFixed(2)}` : `≤ ${target.atMost.toFixed(2)}`;

/** Judged as it is printed, so that a row never says "0.85 ≥ 0.85 MISSED". */
function isMet(target: Target, ratio: number): boolean {
  const shown = Number(ratio.toFixed(2));
  return "atLeast" in target ? shown >= target.atLeast : shown <= target.atMost;
}

export async function writeJson(file: string, rows: readonly ResultRow[]): Promise<void> {
  const records = rows.map(({ name, database, rate, ratio, ratioTo, spread }) => ({
    name,
    database,
    rate: Number(rate.toFixed(2)),
    ratio: Number(ratio.toFixed(4)),
    ratioTo,
    spread: Number(spread.toFixed(4)),
  }));
  await writeFile(file, `${JSON.stringify(records, null, 2)}\n`);
}
