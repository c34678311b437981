import type { HeaderPart } from "./verify-rules.js";

/** No provider sends more, and each costs work before the signature is verified. */
export const maxHeaderLength = 8_192;

/** Returns the entries of a header's list that have the prefix, without the prefix. */
export function entriesOf(header: string, { separator, prefix = "" }: Omit<HeaderPart, "header">): string[] {
  const found: string[] = [];
  for (const part of separator === undefined ? [header] : header.split(separator)) {
    const entry = part.trim();
    if (entry.startsWith(prefix)) found.push(entry.slice(prefix.length));
  }
  return found;
}
