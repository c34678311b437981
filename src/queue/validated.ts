import { jsonText } from "../base/json-text.js";
import { InvalidArgumentError } from "../errors.js";
import { describeIssues, type StandardSchema } from "./standard-schema.js";

/** What the schema makes of a value. The error names paths, and no values. */
export async function validated(schema: StandardSchema, value: unknown, what: string): Promise<unknown> {
  const result = await schema["~standard"].validate(value);
  if (result.issues === undefined) return result.value;
  const issues = describeIssues(result.issues, jsonText(value));
  throw new InvalidArgumentError(`${what} does not fit its schema: ${issues}.`);
}
