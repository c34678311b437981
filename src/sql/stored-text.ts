import { longestErrorText } from "../base/redact.js";
import { errorGroupOf } from "../queue/error-group.js";

/**
 * Text may hold NUL, which PostgreSQL cannot store and at which some SQLite bindings cut. Such a text, and one that
 * begins with our mark, is stored as the mark and base64. All others are stored as they are.
 */
const mark = "\u0001base64:";

export function toStoredText(value: string): string {
  if (!value.includes("\0") && !value.startsWith(mark)) return value;
  return mark + Buffer.from(value, "utf8").toString("base64");
}

export function fromStoredText(stored: string): string {
  if (!stored.startsWith(mark)) return stored;
  return Buffer.from(stored.slice(mark.length), "base64").toString("utf8");
}

/** Errors are for reading: a long one is cut, characters that a database cannot hold become U+FFFD, and none is null. */
export function toStoredError(error: string | null | undefined): string | null {
  if (!error) return null;
  return error.slice(0, longestErrorText).replaceAll("\0", "\uFFFD").toWellFormed();
}

/** The parameters of an error: its text and its group. */
export function storedError(error: string | null | undefined) {
  const stored = toStoredError(error);
  return { error: stored, error_group: errorGroupOf(stored) };
}
