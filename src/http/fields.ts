import { isUtf8 } from "node:buffer";
import type * as z from "zod/mini";
import { type ReadableRequest, readBody } from "./body.js";

/** The caller has a token, but may be slow. */
const bodyMs = 10_000;
/** A wrong name is quoted up to this length. */
const longestQuotedName = 100;

export type Read<T> = { readonly refusal: Refusal } | { readonly value: T };

/** What takes fields. */
export interface Taker<Fields> {
  readonly request: z.ZodMiniType<Fields>;
}

export interface ReadOptions {
  readonly maxBytes: number;
  /** Whether no body is a body without fields. */
  readonly mayBeEmpty?: boolean;
  /** Fields that the path gives. The body may not have them. */
  readonly names?: Readonly<Record<string, string>>;
}

/** Returns the fields of a request's body, or what is wrong with it. */
export async function readFields<Fields>(
  request: ReadableRequest,
  taker: Taker<Fields>,
  { maxBytes, mayBeEmpty = false, names = {} }: ReadOptions,
): Promise<Read<Fields>> {
  const body = await readBody(request, { maxBytes, withinMs: bodyMs });
  if (body === "too large") return bodyRefused("BodyTooLarge", `The body has more than ${maxBytes} bytes.`);
  if (body === "too slow")
    return bodyRefused("BodyUnreadable", `The body did not come within ${bodyMs / 1_000} s.`);
  if (typeof body === "string" || !isUtf8(body))
    return bodyRefused("BodyUnreadable", "The body was cut off, or is not UTF-8.");
  if (body.byteLength === 0 && mayBeEmpty) return checkFields(names, taker);
  const json = parsed(Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString());
  if (json === undefined) return bodyRefused("NotJson", "The body is not JSON.");
  if (typeof json !== "object" || json === null || Array.isArray(json))
    return bodyRefused("NotAnObject", "The body must be a JSON object.");
  const twice = Object.keys(names).find((field) => Object.hasOwn(json, field));
  if (twice !== undefined)
    return { refusal: { code: "UnknownField", message: `The path has ${twice} already.`, field: twice } };
  return checkFields({ ...json, ...names }, taker);
}

/** The parameters of a query. One that is given twice is refused: which of them was meant? */
export function readQuery({ url }: { readonly url: string }): Read<Readonly<Record<string, string>>> {
  const start = url.indexOf("?");
  const query = new URLSearchParams(start < 0 ? "" : url.slice(start).split("#", 1)[0]);
  const fields: Record<string, string> = Object.create(null);
  for (const [field, value] of query) {
    if (field in fields) {
      const name = field.slice(0, 100).toWellFormed();
      const message = `${name} is given twice.`;
      return { refusal: { code: "InvalidField", message, field: name, logged: {} } };
    }
    fields[field] = value;
  }
  return { value: fields };
}

/** Returns the fields as the schema accepts them, or the first problem. */
export function checkFields<Fields>(fields: object, { request }: Taker<Fields>): Read<Fields> {
  const result = request.safeParse(fields);
  return result.success ? { value: result.data } : { refusal: refusalOf(fields, result.error.issues[0]!) };
}

function refusalOf(fields: object, issue: z.core.$ZodIssue): Refusal {
  if (issue.code === "unrecognized_keys") {
    const field = nameOf([...issue.path, issue.keys[0]!]);
    return {
      code: "UnknownField",
      message: `There is no field "${field}".`,
      field,
      logged: {
        ...(issue.path.length === 0 ? {} : { field: nameOf(issue.path) }),
        unknown: issue.keys.length,
      },
    };
  }
  const field = nameOf(issue.path);
  const code = has(fields, issue.path) ? "InvalidField" : "MissingField";
  return { code, message: `${field} ${issue.message}.`, field };
}

/** `filter.topic` is the field `topic` of the field `filter`. */
const nameOf = (path: readonly PropertyKey[]): string =>
  path.map(String).join(".").slice(0, longestQuotedName).toWellFormed();

const has = (value: unknown, [first, ...rest]: readonly PropertyKey[]): boolean =>
  first === undefined ||
  (Object.hasOwn(Object(value), first) && has((value as Record<PropertyKey, unknown>)[first], rest));

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

/** What can be wrong with a request. */
export const refusalCodes = [
  "BodyTooLarge",
  "BodyUnreadable",
  "NotJson",
  "NotAnObject",
  "MissingField",
  "UnknownField",
  "InvalidField",
] as const;

/** What is wrong with a request, and where. The sender gets it with status 400. */
export interface Refusal {
  readonly code: (typeof refusalCodes)[number];
  readonly message: string;
  /** The field of the request, or "body". */
  readonly field: string;
  /** What a log gets instead of `field` where the sender has made up a name: that may be a pasted token. */
  readonly logged?: { readonly field?: string; readonly unknown?: number };
}

/** What the sender gets. */
export const answerOf = ({ code, message, field }: Refusal) => ({ code, message, field });
