import { createHash } from "node:crypto";

const guid = /\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b/gi;
const quoted = /"[^"]*"|`[^`]*`|(?<!\w)'[^']*'(?!\w)/g;
const hex = /\b0x[0-9a-f]+\b|\b(?=[a-f]*\d)[0-9a-f]{8,}\b/gi;
const number = /\d+(?:[.,:]\d+)*/g;

/** An error without what differs from message to message: ids, quoted parts, numbers. */
export const normaliseError = (error: string): string =>
  error
    .slice(0, 1_000)
    .replace(guid, "<id>")
    .replace(quoted, "<text>")
    .replace(hex, "<id>")
    .replace(number, "<n>")
    .replace(/\s+/g, " ")
    .trim();

/** Names the group of an error: the same for errors that differ in ids, quoted parts and numbers only. Null without an error. */
export const errorGroupOf = (error: string | null | undefined): string | null =>
  error ? createHash("sha256").update(normaliseError(error)).digest("hex").slice(0, 16) : null;
