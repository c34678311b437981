import type { SqlRow } from "../../sql/driver.js";

/** Some drivers return an object with rows, others the rows themselves, and for a write the number of rows it changed. */
export function rowsOf(result: unknown): readonly SqlRow[] {
  const rows = Array.isArray(result) ? result : (result as { rows?: unknown } | null)?.rows;
  return Array.isArray(rows) ? (rows as readonly SqlRow[]) : [];
}
