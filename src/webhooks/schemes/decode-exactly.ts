import type { SignatureEncoding } from "./scheme.js";

/** Buffer.from skips what it cannot read; here only the one right spelling of some bytes is read. */
export function decodeExactly(text: string, encoding: SignatureEncoding): Buffer | undefined {
  const bytes = Buffer.from(text, encoding);
  const same = bytes.toString(encoding) === (encoding === "hex" ? text.toLowerCase() : text);
  return same && text !== "" ? bytes : undefined;
}
