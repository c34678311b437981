import { jsonText, withoutPayload } from "../base/redaction.js";
import { InvalidArgumentError } from "../errors.js";

/** The part of Standard Schema v1 that is used: what zod, valibot, arktype and others implement. */
export interface StandardSchema<Output = unknown> {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => SchemaResult<Output> | Promise<SchemaResult<Output>>;
    readonly types?: { readonly input: unknown; readonly output: Output } | undefined;
  };
}

/** What a schema takes, and what it makes of it. */
export type InputOf<Schema extends StandardSchema> = NonNullable<Schema["~standard"]["types"]>["input"];
/** What a schema makes of a value. */
export type OutputOf<Schema extends StandardSchema> = NonNullable<Schema["~standard"]["types"]>["output"];

type SchemaResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly SchemaIssue[] };

interface SchemaIssue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

const maxIssues = 20;
const maxIssueLength = 200;

/**
 * The path and the reason of each issue: `amount: Expected number`. A reason is a text of the schema's author and may quote
 * a value, which is taken out. A payload may have millions of issues; the first ones are described.
 */
export function describeIssues(issues: readonly SchemaIssue[], payload: string): string {
  const first = issues.slice(0, maxIssues);
  const reasons = withoutPayload(
    first.map(({ message }) => shortened(String(message))).join(divider),
    payload,
  ).split(divider);
  const all = first.map((issue, i) => `${shortened(pathOf(issue))}: ${reasons[i] ?? ""}`);
  const more = issues.length - first.length;
  return [...all, ...(more > 0 ? [`and ${more} more`] : [])].join("; ");
}

/** Of all reasons at once, the payload is searched once. */
const divider = "\u0000\n";

const shortened = (text: string): string =>
  text.length > maxIssueLength ? `${text.slice(0, maxIssueLength)}…` : text;

function pathOf(issue: SchemaIssue): string {
  const parts = (issue.path ?? [])
    .slice(0, maxIssues)
    .map((part) => String(typeof part === "object" ? part.key : part));
  return parts.length === 0 ? "(root)" : parts.join(".");
}

/** What the schema makes of a value. The error names paths, and no values. */
export async function validated(schema: StandardSchema, value: unknown, what: string): Promise<unknown> {
  const result = await schema["~standard"].validate(value);
  if (result.issues === undefined) return result.value;
  const issues = describeIssues(result.issues, jsonText(value));
  throw new InvalidArgumentError(`${what} does not fit its schema: ${issues}.`);
}
