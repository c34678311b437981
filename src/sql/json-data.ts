import { InvalidArgumentError } from "../errors.js";

/** A message whose content is given as a value, instead of as text. */
export type WithData<Message extends { readonly payload: string }> =
  | Message
  | (Omit<Message, "payload"> & {
      /** Stored as JSON. Handlers read it as `data`. */
      readonly data: unknown;
      readonly payload?: undefined;
    });

/** The message with its data as the payload. */
export function withPayload<Message extends { readonly payload: string }>(
  message: WithData<Message>,
): Message {
  if (Object(message) !== message || !("data" in message)) return message as Message; // its check says what is wrong
  const { data, payload, ...rest } = message as unknown as {
    readonly data: unknown;
    readonly payload?: string;
  };
  if (payload !== undefined) throw new InvalidArgumentError("Give payload or data, not both.");
  return { ...rest, payload: asJson(data) } as unknown as Message;
}

function asJson(data: unknown): string {
  let text: string | undefined;
  try {
    text = JSON.stringify(data);
  } catch (error) {
    const reason =
      error instanceof TypeError && /circular/i.test(error.message) ? "it is circular" : "see cause";
    throw new InvalidArgumentError(`data cannot be written as JSON: ${reason}.`, { cause: error });
  }
  if (text === undefined)
    throw new InvalidArgumentError(`data cannot be written as JSON: it is ${typeof data}.`);
  return text;
}
