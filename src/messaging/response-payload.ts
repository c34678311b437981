import { InvalidArgumentError, InvalidOperationError } from "../errors.js";
import { validated } from "../queue/validated.js";
import type { CommandDefinition } from "./define-messages.js";
import { fromReferencePayload, isResponseReference, toReferencePayload } from "./response-reference.js";
import { serialisePayload } from "./serialise-payload.js";

const nameOf = (endpoint: string): string => `The response of "${endpoint}"`;

/** The JSON text of what a command's handler returned, validated as the sender will validate it. */
export async function responseText(
  { response, byReference }: CommandDefinition,
  returned: unknown,
  endpoint: string,
  maxBytes: number,
): Promise<string> {
  if (isResponseReference(returned)) {
    if (byReference) return JSON.stringify(toReferencePayload(returned));
    throw new InvalidOperationError(
      `The handler of "${endpoint}" returned a reference. Declare the command with { byReference: true }.`,
    );
  }
  const text = serialisePayload(returned, nameOf(endpoint));
  const bytes = Buffer.byteLength(text);
  if (bytes > maxBytes)
    throw new InvalidOperationError(
      `${nameOf(endpoint)} has ${bytes} bytes; at most ${maxBytes} are sent. Store it elsewhere and return responseReference(url), or raise maxResponseBytes.`,
    );
  await validated(response, JSON.parse(text), nameOf(endpoint));
  return text;
}

/** What the sender of the command gets: the response, validated, or the reference to it. */
export async function responseFrom(
  { response, byReference }: CommandDefinition,
  payload: unknown,
  endpoint: string,
): Promise<unknown> {
  const reference = byReference ? fromReferencePayload(payload) : undefined;
  if (reference !== undefined) return reference;
  if (payload === undefined) throw new InvalidArgumentError(`${nameOf(endpoint)} is missing.`);
  return validated(response, payload, nameOf(endpoint));
}
