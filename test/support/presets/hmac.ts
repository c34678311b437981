import { createHmac } from "node:crypto";

/** The HMAC that most providers document. */
export const hmac = (
  secret: string | Uint8Array,
  content: string,
  encoding: "hex" | "base64" = "hex",
  algorithm: "sha1" | "sha256" = "sha256",
): string => createHmac(algorithm, secret).update(content).digest(encoding);

export const seconds = (at: Date): string => String(Math.floor(at.getTime() / 1_000));

/** A form's fields in the order of their names, each with its value, without separators. */
export const sortedFields = (body: string): string =>
  [...new URLSearchParams(body)]
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .flat()
    .join("");
