import type { HeaderPart } from "./verify-rules.js";

/** No provider sends more, and each costs work before the signature is verified. */
export const maxHeaderLength = 8_192;

/** Returns the entries of a header's list that have the prefix, without the prefix. */
export function entriesOf(header: string, { separator, prefix = "" }: Omit<HeaderPart, "header">): string[] {
  const entries = separator === undefined ? [header] : header.split(separator);
  return entries
    .map((entry) => entry.trim())
    .filter((entry) => entry.startsWith(prefix))
    .map((entry) => entry.slice(prefix.length));
}
