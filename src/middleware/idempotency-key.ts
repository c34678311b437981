import { createHash } from "node:crypto";
import { InvalidArgumentError } from "../errors.js";

/**
 * The key in an Idempotency-Key header, or undefined when it is missing or malformed. The draft wants a string in
 * quotes; many clients send it without them, so both are accepted.
 */
export function parseIdempotencyKey(header: string | null): string | undefined {
  const text = header?.trim() ?? "";
  const quoted = /^"((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"$/.exec(text);
  const key = quoted ? quoted[1]!.replace(/\\(["\\])/g, "$1") : text;
  const isUsable =
    /^[\x20-\x7e]{1,255}$/.test(key) && !key.endsWith(" ") && (quoted !== null || !key.includes('"'));
  return isUsable ? key : undefined;
}

/** Scope and key as one key of fixed length: both together may be longer than the column. */
export function scopedKey(scope: unknown, key: string): string {
  if (typeof scope !== "string" || scope === "")
    throw new InvalidArgumentError(
      "idempotentHttp: scope must return a text that says whose request it is, such as the caller's id.",
    );
  return createHash("sha256")
    .update(JSON.stringify([scope, key]))
    .digest("hex");
}

/** Two requests are the same request when method, path, query and body are equal. */
export function requestFingerprint(request: Request, body: Uint8Array): Uint8Array {
  const { pathname, search } = new URL(request.url);
  return createHash("sha256")
    .update(JSON.stringify([request.method, pathname, search]))
    .update(body)
    .digest();
}
