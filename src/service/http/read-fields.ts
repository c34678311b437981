import { isUtf8 } from "node:buffer";
import type * as z from "zod/mini";
import { type ReadableRequest, readBody } from "../../base/read-body.js";
import type { Operation } from "./operations.js";
import type { Refusal } from "./refusal.js";

export const maxBodyBytes = 16 * 1024;
/** The caller has a token, but may be slow. */
const bodyMs = 10_000;
/** A wrong name is quoted up to this length. */
const longestQuotedName = 100;

type Read<T> = { readonly refusal: Refusal } | { readonly value: T };

/** Returns the fields of a request's body, or what is wrong with it. */
export async function readFields(request: ReadableRequest, operation: Operation): Promise<Read<unknown>> {
  const body = await readBody(request, { maxBytes: maxBodyBytes, withinMs: bodyMs });
  if (body === "too large")
    return bodyRefused("BodyTooLarge", `The body has more than ${maxBodyBytes} bytes.`);
  if (body === "too slow")
    return bodyRefused("BodyUnreadable", `The body did not come within ${bodyMs / 1_000} s.`);
  if (typeof body === "string" || !isUtf8(body))
    return bodyRefused("BodyUnreadable", "The body was cut off, or is not UTF-8.");
  const json = parsed(Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString());
  if (json === undefined) return bodyRefused("NotJson", "The body is not JSON.");
  if (typeof json !== "object" || json === null || Array.isArray(json))
    return bodyRefused("NotAnObject", "The body must be a JSON object.");
  return checkFields(json, operation);
}

/** Returns the fields as the operation's schema accepts them, or the first problem. */
export function checkFields(fields: object, { request }: Operation): Read<unknown> {
  const result = request.safeParse(fields);
  return result.success ? { value: result.data } : { refusal: refusalOf(fields, result.error.issues[0]!) };
}

function refusalOf(fields: object, issue: z.core.$ZodIssue): Refusal {
  if (issue.code === "unrecognized_keys") {
    const field = issue.keys[0]!.slice(0, longestQuotedName).toWellFormed();
    return { code: "UnknownField", message: `There is no field "${field}".`, field };
  }
  const field = String(issue.path[0]);
  const isMissing = !Object.hasOwn(fields, field);
  return {
    code: isMissing ? "MissingField" : "InvalidField",
    message: `${field} ${issue.message}.`,
    field,
  };
}

const bodyRefused = (code: Refusal["code"], message: string) => ({
  refusal: { code, message, field: "body" },
});

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
