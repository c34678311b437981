import type { SqliteHandle } from "../client.js";
import { damagedError } from "../faults.js";

/** `quick_check` reads every page; `integrity_check` also compares each index with its table. */
export type IntegrityCheck = "quick_check" | "integrity_check";

/**
 * Refuses a damaged database. A function collects the rows, because a prepared statement would keep the file open after
 * `close` with the SQLite package for Node 20, and Windows renames no open file.
 */
export function checkDatabase(handle: SqliteHandle, check: IntegrityCheck, file: string): void {
  const found: string[] = [];
  handle.function("oncebox_found", (text) => {
    found.push(String(text));
    return null;
  });
  try {
    handle.exec(`select oncebox_found(${check}) from pragma_${check}`);
  } catch (error) {
    if (found.length === 0) throw error; // after the last row SQLite reports the damage once more, without the place
  }
  if (found.length === 1 && found[0] === "ok") return;
  throw damagedError(file, (found[0] ?? "the check returned nothing").replaceAll("\n", "; ").slice(0, 300));
}
