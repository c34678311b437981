import { InvalidArgumentError } from "../errors.js";
import { describeIssues, type StandardSchema } from "../queue/standard-schema.js";
import type { MessageDefinition } from "./define-messages.js";
import { jsonText } from "./json-text.js";

/** What the schema makes of a value. The error names paths, and no values. */
export async function validated(schema: StandardSchema, value: unknown, what: string): Promise<unknown> {
  const result = await schema["~standard"].validate(value);
  if (result.issues === undefined) return result.value;
  const issues = describeIssues(result.issues, jsonText(value));
  throw new InvalidArgumentError(`${what} does not fit its schema: ${issues}.`);
}

/** What the schemas of a message make of its payload. */
export async function validatedPayload(
  definition: MessageDefinition,
  payload: unknown,
  endpoint: string,
): Promise<unknown> {
  if (definition.messageType !== "PushCall")
    return validated(definition.payload, payload, `The payload of "${endpoint}"`);
  const { input, output } = (payload ?? {}) as { readonly input?: unknown; readonly output?: unknown };
  return {
    input: await validated(definition.input, input, `The input of "${endpoint}"`),
    output: await validated(definition.output, output, `The output of "${endpoint}"`),
  };
}
