/** The part of Standard Schema v1 that is used: what zod, valibot, arktype and others implement. */
export interface StandardSchema<Output = unknown> {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => SchemaResult<Output> | Promise<SchemaResult<Output>>;
    readonly types?: { readonly input: unknown; readonly output: Output } | undefined;
  };
}

export type SchemaResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly SchemaIssue[] };

export interface SchemaIssue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

/** The path and the reason of each issue, without values: `amount: Expected number`. */
export function describeIssues(issues: readonly SchemaIssue[]): string {
  return issues.map((issue) => `${pathOf(issue)}: ${issue.message}`).join("; ");
}

function pathOf(issue: SchemaIssue): string {
  const parts = (issue.path ?? []).map((part) => String(typeof part === "object" ? part.key : part));
  return parts.length === 0 ? "(root)" : parts.join(".");
}
