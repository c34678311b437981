import { type BinaryToTextEncoding, createHmac } from "node:crypto";

interface HmacOptions {
  readonly algorithm?: "sha1" | "sha256";
  readonly encoding?: BinaryToTextEncoding;
}

/** The HMAC of a text, as the providers' documentation writes it: SHA-256 in hexadecimal digits, if nothing else is said. */
export const hmac = (
  secret: string | Uint8Array,
  text: string,
  { algorithm = "sha256", encoding = "hex" }: HmacOptions = {},
): string => createHmac(algorithm, secret).update(text).digest(encoding);
