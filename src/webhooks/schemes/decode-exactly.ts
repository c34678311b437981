import type { SignatureEncoding } from "./verify-rules.js";

/** `Buffer.from` skips characters that it cannot decode. This returns undefined for all but the one canonical encoding. */
export function decodeExactly(text: string, encoding: SignatureEncoding): Buffer | undefined {
  const bytes = Buffer.from(text, encoding);
  const same = bytes.toString(encoding) === (encoding === "hex" ? text.toLowerCase() : text);
  return same && text !== "" ? bytes : undefined;
}

/** The same for a secret, whose base64 may lack its padding: some consoles show it so. */
export const decodeSecret = (text: string, encoding: SignatureEncoding): Buffer | undefined =>
  decodeExactly(encoding === "base64" ? text.padEnd(Math.ceil(text.length / 4) * 4, "=") : text, encoding);
