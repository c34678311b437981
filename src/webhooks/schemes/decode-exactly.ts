import type { SignatureEncoding } from "./scheme.js";

/** `Buffer.from` skips characters that it cannot decode. This returns undefined for all but the one canonical encoding. */
export function decodeExactly(text: string, encoding: SignatureEncoding): Buffer | undefined {
  const bytes = Buffer.from(text, encoding);
  const same = bytes.toString(encoding) === (encoding === "hex" ? text.toLowerCase() : text);
  return same && text !== "" ? bytes : undefined;
}
