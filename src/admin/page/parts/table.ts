import { type Child, element } from "../dom.js";

export interface Column<Row> {
  readonly name: string;
  readonly cell: (row: Row) => Child;
  /** Of the column, with its head. */
  readonly class?: string;
  /** Of its cells alone. */
  readonly cellClass?: string;
}

/** A table that becomes a list of cards on a narrow screen. The roles keep it a table for screen readers there. */
export function table<Row>(
  caption: string,
  columns: readonly Column<Row>[],
  rows: readonly Row[],
  none: string,
): HTMLElement {
  if (rows.length === 0) return element("p", { class: "none" }, none);
  return element(
    "table",
    { role: "table" },
    element("caption", { class: "visually-hidden" }, caption),
    element(
      "thead",
      { role: "rowgroup" },
      element(
        "tr",
        { role: "row" },
        columns.map(({ name, class: kind }) =>
          element("th", { role: "columnheader", scope: "col", class: kind }, name),
        ),
      ),
    ),
    element(
      "tbody",
      { role: "rowgroup" },
      rows.map((row) =>
        element(
          "tr",
          { role: "row" },
          columns.map(({ name, cell, class: kind = "", cellClass = "" }) =>
            element(
              "td",
              { role: "cell", "data-label": name, class: `${kind} ${cellClass}` },
              element("div", {}, cell(row)),
            ),
          ),
        ),
      ),
    ),
  );
}
