import { validated } from "../queue/validated.js";
import type { MessageDefinition } from "./define-messages.js";

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
